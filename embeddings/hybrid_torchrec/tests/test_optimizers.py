"""Fused updates against float64, against torch.optim on the same rows, and against fbgemm's CPU tables."""

import os
import subprocess
import sys

import fbgemm_gpu  # noqa: F401
import numpy as np
import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
from hybrid_torchrec import HashTable, Normal, OptimizerSpec, TableConfig
from hybrid_torchrec.library import LIBRARY, library_directory
from hybrid_torchrec.optimizers import KINDS
from reference import ReferenceTable, pooled
from torch_tables import torch_table

STEPS = 20
# Whole vectors, halves, quarters and single columns of each instruction set, and less than one vector.
DIMS = (1, 3, 16, 29, 128)
SPECS = [OptimizerSpec(kind=kind, lr=0.05) for kind in KINDS] + [
    OptimizerSpec(kind=kind, lr=0.05, weight_decay=0.1, betas=(0.8, 0.95)) for kind in KINDS
]


def name_of(spec: OptimizerSpec) -> str:
    return spec.kind + ("-decay" if spec.weight_decay else "")


def make(spec: OptimizerSpec, dim: int, device: str = "cpu", **fields: object) -> tuple[HashTable, torch.Tensor]:
    """A table with 40 rows, and their ids."""
    config = TableConfig(name="t", dim=dim, optimizer=spec, initializer=Normal(std=1.0), **fields)
    table = HashTable(config, device)
    ids = torch.arange(40) * 7 - 90
    table.assign(ids, train=True)
    return table, ids


def batches(table: HashTable, ids: torch.Tensor, dim: int, steps: int = STEPS):
    """slots, grads; ids repeat, and one in ten is absent: slot 0."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        drawn = torch.randint(0, 44, (60,), generator=generator) * 7 - 90
        yield table.assign(drawn, train=False), torch.randn(60, dim, generator=generator)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("spec", SPECS, ids=name_of)
def test_twenty_steps_against_float64(spec: OptimizerSpec, dim: int, device: str) -> None:
    table, ids = make(spec, dim, device)
    reference = ReferenceTable(table.weights.cpu().numpy(), spec)
    for slots, grads in batches(table, ids, dim):
        table.update(slots, grads.to(device))
        reference.update(slots.cpu().numpy(), grads.numpy())
    used = slice(0, len(ids) + 1)
    # LAMB's ratio of norms and Adam's first steps (a ratio of the gradient to itself) multiply rounding errors.
    np.testing.assert_allclose(table.weights.cpu().numpy()[used], reference.w[used], rtol=2e-4, atol=2e-5)
    expected = {"momentum1": reference.m1, "momentum2": reference.m2}
    for name, tensor in table.state.items():
        np.testing.assert_allclose(tensor.cpu().numpy()[used], expected[name][used], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operators", ["kernels", "generic"])
@pytest.mark.parametrize("kind", ["adam", "adamw", "lamb"])
def test_means_of_a_thousand_steps_are_not_off_by_float32s_beta(kind: str, operators: str) -> None:
    """beta2 = 0.999 is 1.3e-8 off in float32: a product by it would put the mean of squares 5e-6 off after 1,000 steps,
    in all columns alike. Roundings, which go either way, are averaged out."""
    table, ids = make(OptimizerSpec(kind=kind, lr=1e-4), 16)
    if operators == "generic":
        table = torch_table(table.config)
    slots = table.assign(ids, train=True)
    generator = torch.Generator().manual_seed(4)
    first, second = (np.zeros((len(ids), 16)) for _ in range(2))
    for _ in range(1000):
        grads = 1 + 0.1 * torch.randn(len(ids), 16, generator=generator)
        table.update(slots, grads)
        g = grads.double().numpy()
        first += (1 - 0.9) * (g - first)
        second += (1 - 0.999) * (g**2 - second)
    for name, expected in (("momentum1", first), ("momentum2", second)):
        moments = table.state[name].double().numpy()[slots.numpy()]
        assert abs(np.mean(moments / expected - 1)) < 1e-7, name


@pytest.mark.parametrize("spec", SPECS, ids=name_of)
def test_generic_path_equals_the_kernels(spec: OptimizerSpec) -> None:
    kernels, ids = make(spec, 24)
    generic = torch_table(kernels.config)
    assert torch.equal(generic.assign(ids, train=True), kernels.find(ids))
    for slots, grads in batches(kernels, ids, 24):
        kernels.update(slots, grads)
        generic.update(slots, grads)
    torch.testing.assert_close(generic.weights[:41], kernels.weights[:41], rtol=2e-4, atol=1e-5)
    for name in kernels.state:
        torch.testing.assert_close(generic.state[name][:41], kernels.state[name][:41], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "peer"),
    [
        (OptimizerSpec(kind="sgd", lr=0.1, weight_decay=0.2), torch.optim.SGD),
        (OptimizerSpec(kind="adagrad", lr=0.1, weight_decay=0.2), torch.optim.Adagrad),
        (OptimizerSpec(kind="adam", lr=0.1, weight_decay=0.2, betas=(0.7, 0.9)), torch.optim.Adam),
        (OptimizerSpec(kind="adamw", lr=0.1, weight_decay=0.2, betas=(0.7, 0.9)), torch.optim.AdamW),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_torch_optim(spec: OptimizerSpec, peer: type[torch.optim.Optimizer]) -> None:
    """Every row in every batch: there a dense optimizer does the same."""
    table, ids = make(spec, 20)
    slots = table.assign(ids, train=False).repeat(2)
    weight = torch.nn.Parameter(table.lookup(slots[:40]).double())
    more = {"betas": spec.betas} if spec.kind.startswith("adam") else {}
    optimizer = peer([weight], lr=spec.lr, weight_decay=spec.weight_decay, **more)
    for step in range(STEPS):
        grads = torch.randn(80, 20, generator=torch.Generator().manual_seed(step))
        weight.grad = (grads[:40] + grads[40:]).double()
        optimizer.step()
        table.update(slots, grads)
    torch.testing.assert_close(table.lookup(slots[:40]), weight.detach().float(), rtol=1e-4, atol=1e-5)


FBGEMM = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("kind", FBGEMM)
def test_fbgemm_static_table(kind: str, pooling: str) -> None:
    dim, rows = 32, 50
    spec = OptimizerSpec(kind=kind, lr=0.1, eps=1e-4)
    table = HashTable(TableConfig(name="t", dim=dim, optimizer=spec, initializer=Normal(std=1.0)))
    slots = table.assign(torch.arange(rows) + 10**15, train=True)
    static = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=FBGEMM[kind],
        learning_rate=0.1,
        eps=1e-4,
        pooling_mode=PoolingMode.SUM if pooling == "sum" else PoolingMode.MEAN,
    )
    static.split_embedding_weights()[0].copy_(table.lookup(slots))
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        lengths = torch.randint(0, 6, (16,), generator=generator)
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        indices = torch.randint(0, rows, (int(offsets[-1]),), generator=generator)
        ours = table.embed_pooled(table.assign(indices + 10**15, train=True), offsets, pooling)
        theirs = static(indices, offsets)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        grad = torch.randn(16, dim, generator=generator)
        ours.backward(grad)
        theirs.backward(grad)
    torch.testing.assert_close(table.lookup(slots), static.split_embedding_weights()[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_pooled_gradients(mean: bool, weighted: bool, device: str) -> None:
    """Values, the rows' gradients (SGD, rate 1) and those of the factors, with empty bags and repeated rows."""
    table, ids = make(OptimizerSpec(kind="sgd", lr=1.0), 19, device)
    offsets = [0, 3, 3, 10, 11, 30]
    slots = table.assign(ids[torch.arange(30) * 11 % 17], train=False)
    factors = torch.linspace(-1, 2, 30) if weighted else None
    before = table.weights.double().cpu().numpy().copy()
    weights = None if factors is None else factors.to(device).clone().requires_grad_()
    out = table.embed_pooled(slots, torch.tensor(offsets, device=device), "mean" if mean else "sum", weights)
    rows = before[slots.cpu().numpy()]
    np_factors = None if factors is None else factors.double().numpy()
    np.testing.assert_allclose(
        out.detach().cpu().numpy(), pooled(rows, offsets, mean, np_factors), rtol=1e-5, atol=1e-5
    )
    grad = torch.randn(5, 19, generator=torch.Generator().manual_seed(0))
    out.backward(grad.to(device))
    lengths = np.diff(offsets)
    each = grad.double().numpy()[np.repeat(np.arange(5), lengths)]
    if mean:
        each = each / np.repeat(np.maximum(lengths, 1), lengths)[:, None]
    expected = before.copy()
    np.subtract.at(expected, slots.cpu().numpy(), each if np_factors is None else each * np_factors[:, None])
    np.testing.assert_allclose(table.weights.cpu().numpy(), expected, rtol=1e-5, atol=1e-5)
    if weights is not None:
        np.testing.assert_allclose(weights.grad.cpu().numpy(), (each * rows).sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("spec", SPECS[: len(KINDS)], ids=name_of)
def test_sixteen_bit_rows_round_once_a_step(spec: OptimizerSpec, dtype: torch.dtype, device: str) -> None:
    table, ids = make(spec, 29, device, dtype=dtype)
    reference = ReferenceTable(table.weights.double().cpu().numpy(), spec)
    for slots, grads in batches(table, ids, 29, steps=5):
        table.update(slots, grads.to(device))
        reference.update(slots.cpu().numpy(), grads.numpy())
        # From here on the reference goes with the rounded rows.
        stored = table.weights.double().cpu().numpy()[:41]
        half_ulp = np.maximum(np.abs(reference.w[:41]), 1e-3) * (2.0**-11 if dtype == torch.float16 else 2.0**-8)
        assert (np.abs(stored - reference.w[:41]) <= half_ulp * 1.01 + 2e-5).all()
        reference.w[:41] = stored


def test_gradients_accumulate() -> None:
    """Two batches that wait are one: duplicates over both, pooled and not."""
    spec = OptimizerSpec(kind="adam", lr=0.1)
    whole, ids = make(spec, 16)
    parts, _ = make(spec, 16)
    a, b = whole.assign(ids[:10], train=False), whole.assign(ids[5:25], train=False)
    offsets = torch.tensor([0, 4, 4, 20])
    grad_a, grad_b = torch.randn(10, 16), torch.randn(3, 16)
    parts.accumulate = True
    parts.embed(a).backward(grad_a)
    parts.embed_pooled(b, offsets, "mean").backward(grad_b)
    assert torch.equal(parts.weights, whole.weights)
    parts.apply_gradients()
    each = (grad_b / torch.tensor([[4.0], [1.0], [16.0]])).repeat_interleave(torch.tensor([4, 0, 16]), 0)
    whole.update(torch.cat([a, b]), torch.cat([grad_a, each]))
    torch.testing.assert_close(parts.weights, whole.weights)
    assert parts.updates == 1


def test_waiting_gradients_keep_their_rows() -> None:
    table, ids = make(OptimizerSpec(kind="sgd", lr=1.0), 4)
    slots = table.assign(ids[:3], train=False)
    table.update(slots, torch.ones(3, 4), apply=False)
    assert not set(table.select_victims(100).tolist()) & set(ids[:3].tolist())
    table.erase(ids[:1])
    newcomer = table.assign(torch.tensor([10**9]), train=True)
    assert newcomer.item() == slots[0].item()
    before = table.lookup(newcomer)
    table.apply_gradients()
    assert torch.equal(table.lookup(newcomer), before)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["sgd", "adagrad", "rowwise_adagrad", "lion"])
def test_a_row_takes_the_same_step_alone(kind: str, decay: float) -> None:
    """Rows take their steps some at a time; of one gradient, of a few, and of more than there is room for at first."""
    together, alone = (make(OptimizerSpec(kind=kind, lr=0.05, weight_decay=decay), 24)[0] for _ in range(2))
    ids = torch.arange(101) * 7 - 90
    slots = together.assign(ids, train=True)
    assert torch.equal(alone.assign(ids, train=True), slots)
    generator = torch.Generator().manual_seed(4)
    counts = torch.tensor([1, 2, 1, 3, 1, 40, 1, 700, 5]).repeat(12)[:101]
    drawn = slots.repeat_interleave(counts)[torch.randperm(int(counts.sum()), generator=generator)]
    grads = torch.randn(len(drawn), 24, generator=generator)
    together.update(drawn, grads)
    for slot in slots:
        alone.update(drawn[drawn == slot], grads[drawn == slot])
    assert torch.equal(together.weights, alone.weights)


THREADS = """
import torch, hashlib
from hybrid_torchrec import *
torch.set_num_threads({threads})
digest = hashlib.sha256()
for kind in ("sgd", "rowwise_adagrad", "lamb", "lion"):
    table = HashTable(TableConfig(name="t", dim=40, optimizer=OptimizerSpec(kind=kind, lr=0.1), eviction=LFU(),
                                  max_rows=30000))
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        ids = (torch.rand(40000, generator=generator) ** 4 * 60000).long()
        out = table.embed_pooled(table.assign(ids, train=True), torch.arange(0, 40001, 8), "mean")
        out.backward(torch.randn(out.shape, generator=generator))
    rows = table.changed_since(0)[0].sorted_by_id()
    for tensor in rows.named_tensors().values():
        digest.update(tensor.contiguous().numpy().tobytes())
print(digest.hexdigest())
"""


def test_the_library_has_parallel_loops() -> None:
    """at::parallel_for is compiled into it, and without OpenMP as a plain loop."""
    assert b"GOMP_parallel" in (library_directory() / LIBRARY).read_bytes()


def test_same_bits_for_any_number_of_threads() -> None:
    def run(threads: int) -> str:
        command = [sys.executable, "-c", THREADS.format(threads=threads)]
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert len({run(threads) for threads in (1, 2, 5)}) == 1
