"""gr_ops has the NPU's operators for the CPU too, so what uses them runs there: here against fbgemm's CPU kernels and
autograd. On NPUs: test_npu_tables.py.

Sizes: several features per table, a table of another width, empty bags, repeated rows.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import (
    BoundsCheckMode,
    EmbeddingLocation,
    PoolingMode,
)
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    DenseTableBatchedEmbeddingBagsCodegen,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from torch import Tensor

pytestmark = pytest.mark.usefixtures("patched")

ROWS, DIMS, FEATURE_TABLE = [10, 7, 5], [8, 4, 12], [0, 0, 1, 2]
SPECS = [(r, d, EmbeddingLocation.HOST, ComputeDevice.CPU) for r, d in zip(ROWS, DIMS, strict=True)]
SGD, ADAGRAD, ROWWISE = EmbOptimType.EXACT_SGD, EmbOptimType.EXACT_ADAGRAD, EmbOptimType.EXACT_ROWWISE_ADAGRAD
SAME = [[4]] * 4
VARYING = [[2, 3], [1, 2], [3, 0], [2, 2]]


def npu_fused() -> type[SplitTableBatchedEmbeddingBagsCodegen]:
    from torchrec.distributed.npu_embedding_kernel import NpuSplitTableBatchedEmbeddingBags

    return NpuSplitTableBatchedEmbeddingBags


def make(kind: type[Any], specs: list[Any] = SPECS, table: list[int] = FEATURE_TABLE, **options: Any) -> Any:
    module = kind(specs, feature_table_map=table, learning_rate=0.1, device=torch.device("cpu"), **options)
    generator = torch.Generator().manual_seed(1)
    for weights in module.split_embedding_weights():
        weights.copy_(torch.randn(weights.shape, generator=generator))
    return module


def batch(step: int, strides: list[list[int]]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    lengths = [torch.randint(0, 4, (sum(s),), generator=generator) for s in strides]
    indices = [
        torch.randint(0, ROWS[t], (int(part.sum()),), generator=generator)
        for t, part in zip(FEATURE_TABLE, lengths, strict=True)
    ]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(lengths).cumsum(0)])
    return torch.cat(indices), offsets


def assert_same_state(left: Any, right: Any, **tolerance: float) -> None:
    for a, b in zip(left.split_embedding_weights(), right.split_embedding_weights(), strict=True):
        torch.testing.assert_close(a, b, **tolerance)
    for a, b in zip(left.split_optimizer_states(), right.split_optimizer_states(), strict=True):
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(x, y, **tolerance)


# Weighted MEAN is not among these: fbgemm's CPU kernels divide by the length in the lookup, not in its gradient.
POOLINGS = [
    pytest.param(PoolingMode.SUM, False, id="sum"),
    pytest.param(PoolingMode.SUM, True, id="weighted_sum"),
    pytest.param(PoolingMode.MEAN, False, id="mean"),
]


# Varying batches with EXACT_ADAGRAD, which fbgemm 1.1.0 refuses, are in the next test only.
BATCHES = [
    pytest.param(optimizer, strides, id=f"{optimizer}-{'varying' if strides is VARYING else 'same'}_batch")
    for optimizer in (SGD, ADAGRAD, ROWWISE)
    for strides in (SAME, VARYING)
    if (optimizer, strides) != (ADAGRAD, VARYING)
]


@pytest.mark.parametrize(("optimizer", "strides"), BATCHES)
@pytest.mark.parametrize(("pooling", "weighted"), POOLINGS)
def test_fused_equals_fbgemm(
    optimizer: EmbOptimType, pooling: PoolingMode, weighted: bool, strides: list[list[int]]
) -> None:
    reference = make(SplitTableBatchedEmbeddingBagsCodegen, optimizer=optimizer, pooling_mode=pooling)
    subject = make(npu_fused(), optimizer=optimizer, pooling_mode=pooling)
    for step in range(3):
        indices, offsets = batch(step, strides)
        weights = torch.rand(indices.numel()) if weighted else None
        varying = {"batch_size_per_feature_per_rank": strides} if strides is VARYING else {}
        expected = reference(indices, offsets, weights, **varying)
        got = subject(indices, offsets, weights, **varying)
        torch.testing.assert_close(got, expected)
        grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(step))
        expected.backward(grad)
        got.backward(grad)
    assert_same_state(subject, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("pooling", "weighted"), POOLINGS)
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ROWWISE], ids=str)
def test_varying_batches_equal_padded_ones(optimizer: EmbOptimType, pooling: PoolingMode, weighted: bool) -> None:
    """A batch that varies by feature is one of the largest size whose further bags are empty and left out."""
    reference = make(SplitTableBatchedEmbeddingBagsCodegen, optimizer=optimizer, pooling_mode=pooling)
    subject = make(npu_fused(), optimizer=optimizer, pooling_mode=pooling)
    largest = max(sum(sizes) for sizes in VARYING)
    for step in range(3):
        indices, offsets = batch(step, VARYING)
        weights = torch.rand(indices.numel()) if weighted else None
        lengths = offsets.diff().split([sum(sizes) for sizes in VARYING])
        padded = torch.cat([torch.nn.functional.pad(part, (0, largest - part.numel())) for part in lengths])
        rectangle = reference(indices, torch.nn.functional.pad(padded.cumsum(0), (1, 0)), weights)
        columns = rectangle.split([DIMS[table] for table in FEATURE_TABLE], dim=1)
        ranks = range(len(VARYING[0]))
        rows = [column[: sum(sizes)].split(sizes) for column, sizes in zip(columns, VARYING, strict=True)]
        expected = torch.cat([feature[rank].flatten() for rank in ranks for feature in rows])
        got = subject(indices, offsets, weights, batch_size_per_feature_per_rank=VARYING)
        torch.testing.assert_close(got, expected)
        grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(step))
        expected.backward(grad)
        got.backward(grad)
    assert_same_state(subject, reference, rtol=1e-5, atol=1e-5)


def test_gradient_clipping_equals_fbgemm() -> None:
    options = {"optimizer": ROWWISE, "gradient_clipping": True, "max_gradient": 0.2}
    reference, subject = make(SplitTableBatchedEmbeddingBagsCodegen, **options), make(npu_fused(), **options)
    for step in range(3):
        for module in (reference, subject):
            out = module(*batch(step, SAME))
            out.backward(torch.randn(out.shape, generator=torch.Generator().manual_seed(step)))
    assert_same_state(subject, reference, rtol=1e-5, atol=1e-5)


def test_half_precision_tables() -> None:
    options = {"optimizer": ROWWISE, "weights_precision": SparseType.FP16, "stochastic_rounding": False}
    reference, subject = make(SplitTableBatchedEmbeddingBagsCodegen, **options), make(npu_fused(), **options)
    for module in (reference, subject):
        out = module(*batch(0, SAME))
        out.backward(torch.ones_like(out))
    assert_same_state(subject, reference, rtol=2e-3, atol=2e-3)  # a unit in the last place of fp16


@pytest.mark.parametrize("mode", [WeightDecayMode.L2, WeightDecayMode.DECOUPLE, WeightDecayMode.NONE])
def test_rowwise_adagrad_weight_decay(mode: WeightDecayMode) -> None:
    """fbgemm's CPU kernels ignore the mode, so the reference is the optimizer's formula, in fp64."""
    rate, decay, eps = 0.1, 0.3, 1e-8
    subject = make(npu_fused(), [SPECS[0]], [0], optimizer=ROWWISE, weight_decay=decay, weight_decay_mode=mode)
    weights = subject.split_embedding_weights()[0].double()
    squares = torch.zeros(ROWS[0], dtype=torch.float64)
    for step in range(3):
        indices, offsets = torch.tensor([1, 1, 4]), torch.tensor([0, 2, 3])
        grad = torch.randn(2, DIMS[0], generator=torch.Generator().manual_seed(step))
        subject(indices, offsets).backward(grad)
        for row, row_grad in ((1, 2 * grad[0].double()), (4, grad[1].double())):
            if mode == WeightDecayMode.L2:
                row_grad = row_grad + decay * weights[row]
            squares[row] += row_grad.square().mean()
            keep = 1 - rate * decay if mode == WeightDecayMode.DECOUPLE else 1.0
            weights[row] = keep * weights[row] - rate * row_grad / (squares[row].sqrt() + eps)
    torch.testing.assert_close(subject.split_embedding_weights()[0].double(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", [PoolingMode.SUM, PoolingMode.MEAN], ids=["sum", "mean"])
def test_gradients_of_a_weighted_lookup(pooling: PoolingMode) -> None:
    """Autograd through plain indexing; fbgemm's CPU kernels differentiate by the rows after their update."""
    subject = make(npu_fused(), [SPECS[0]], [0], optimizer=SGD, pooling_mode=pooling)
    table = subject.split_embedding_weights()[0].clone().requires_grad_()
    indices, offsets = torch.tensor([3, 3, 1, 9, 0]), torch.tensor([0, 3, 3, 5])
    bag = torch.tensor([0, 0, 0, 2, 2])
    weights = torch.rand(5, requires_grad=True)
    plain = weights.detach().clone().requires_grad_()
    rows = table[indices] * plain.unsqueeze(1)
    expected = torch.zeros(3, DIMS[0]).index_add(0, bag, rows)
    if pooling == PoolingMode.MEAN:
        expected = expected / torch.tensor([3.0, 1.0, 2.0]).unsqueeze(1)
    grad = torch.randn(3, DIMS[0])
    expected.backward(grad)
    got = subject(indices, offsets, weights)
    torch.testing.assert_close(got, expected)
    got.backward(grad)
    torch.testing.assert_close(weights.grad, plain.grad)
    assert table.grad is not None
    torch.testing.assert_close(subject.split_embedding_weights()[0], (table - 0.1 * table.grad).detach())


@pytest.mark.parametrize("optimizer", [SGD, ROWWISE], ids=str)
def test_unpooled(optimizer: EmbOptimType) -> None:
    """Unpooled lookup equals pooling over bags of one, which fbgemm's CPU kernels can do."""
    specs = [(rows, 8, EmbeddingLocation.HOST, ComputeDevice.CPU) for rows in ROWS]
    subject = make(npu_fused(), specs, optimizer=optimizer, pooling_mode=PoolingMode.NONE)
    reference = make(SplitTableBatchedEmbeddingBagsCodegen, specs, [0, 1, 2], optimizer=optimizer)
    # three values per feature so that the reference has one batch size; features 0 and 1 share table 0
    indices = torch.tensor([0, 5, 5, 6, 6, 2, 4, 4, 1])
    got = subject(torch.cat([indices[:3], indices]), torch.tensor([0, 3, 3, 3, 6, 6, 9, 9, 12]))
    assert got.shape == (12, 8)
    expected = reference(indices, torch.arange(10))
    torch.testing.assert_close(got[3:], torch.cat(expected.split(8, dim=1)))
    grad = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    grad[:3] = 0
    got.backward(grad)
    expected.backward(torch.cat(grad[3:].split(3), dim=1))
    assert_same_state(subject, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("pooling", "weighted"), POOLINGS)
def test_dense_equals_fbgemm(pooling: PoolingMode, weighted: bool) -> None:
    from torchrec.distributed.npu_dense_embedding_kernel import NpuDenseTableBatchedEmbeddingBags

    specs = list(zip(ROWS, DIMS, strict=True))
    reference = DenseTableBatchedEmbeddingBagsCodegen(specs, FEATURE_TABLE, pooling_mode=pooling, use_cpu=True)
    subject = NpuDenseTableBatchedEmbeddingBags(
        specs, torch.device("cpu"), feature_table_map=FEATURE_TABLE, pooling_mode=pooling
    )
    with torch.no_grad():
        subject.weights.copy_(reference.weights)
    indices, offsets = batch(0, SAME)
    weights = [torch.rand(indices.numel()).requires_grad_() if weighted else None]
    weights.append(weights[0].detach().clone().requires_grad_() if weights[0] is not None else None)
    outs = [module(indices, offsets, w) for module, w in zip((reference, subject), weights, strict=True)]
    torch.testing.assert_close(outs[1], outs[0])
    grad = torch.randn(outs[0].shape)
    for out in outs:
        out.backward(grad)
    torch.testing.assert_close(subject.weights.grad, reference.weights.grad)
    if weights[0] is not None and weights[1] is not None:
        torch.testing.assert_close(weights[1].grad, weights[0].grad)


def test_bounds(caplog: pytest.LogCaptureFixture) -> None:
    bad, offsets = torch.tensor([2, 10, -4]), torch.tensor([0, 1, 2, 3])
    fatal = make(npu_fused(), [SPECS[0]], [0], bounds_check_mode=BoundsCheckMode.FATAL)
    with pytest.raises(RuntimeError, match=r"indices\[1\] of table 0, batch 1 is out of range; .*got 10"):
        fatal(bad, offsets)
    warning = make(npu_fused(), [SPECS[0]], [0], bounds_check_mode=BoundsCheckMode.WARNING)
    table = warning.split_embedding_weights()[0]
    for _ in range(2):
        torch.testing.assert_close(warning(bad.clone(), offsets).detach(), table[torch.tensor([2, 0, 0])])
    assert int(warning.bounds_check_warning) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "2 embedding indices are out of bounds; row 0 is used"
    ]


def test_empty_batch() -> None:
    subject = make(npu_fused(), optimizer=ROWWISE)
    before = [w.clone() for w in subject.split_embedding_weights()]
    out = subject(torch.empty(0, dtype=torch.int64), torch.zeros(9, dtype=torch.int64))
    assert out.shape == (2, 8 + 8 + 4 + 12) and not out.any()
    out.sum().backward()
    for old, new in zip(before, subject.split_embedding_weights(), strict=True):
        assert torch.equal(old, new)


def test_rows_selected_per_feature() -> None:
    """Against plain indexing, and its gradient against that of plain indexing."""
    from torchrec.distributed.npu_variable_batches import select_rows_per_feature

    rows, columns, batch_size = [3, 1, 4], [2, 5, 3], 6
    inputs = torch.randn(sum(r * c for r, c in zip(rows, columns, strict=True)), requires_grad=True)
    indices = torch.stack([torch.randint(r, (batch_size,)) for r in rows])
    got = select_rows_per_feature(inputs, indices, rows, columns)
    plain, start = [], 0
    for r, c, index in zip(rows, columns, indices, strict=True):
        plain.append(torch.stack([inputs[start + int(i) * c : start + (int(i) + 1) * c] for i in index]))
        start += r * c
    expected = torch.cat(plain, dim=1)
    torch.testing.assert_close(got, expected)
    grad = torch.randn(expected.shape)
    torch.testing.assert_close(torch.autograd.grad(got, inputs, grad), torch.autograd.grad(expected, inputs, grad))


def test_refusals_name_what_works() -> None:
    with pytest.raises(NotImplementedError, match=r"(?i)exact_sgd.*adam"):
        make(npu_fused(), optimizer=EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD)


def adam_step(module: Any, step: int) -> None:
    out = module(*batch(step, SAME))
    out.backward(torch.randn(out.shape, generator=torch.Generator().manual_seed(step)))


@pytest.mark.parametrize("way", ["state_dict", "set_optimizer_step", "iter"])
def test_adam_goes_on_from_a_checkpoint(way: str) -> None:
    """With the bias correction of the steps before: a module that starts anew there makes other rows."""
    whole = make(npu_fused(), optimizer=EmbOptimType.ADAM)
    for step in range(3):
        adam_step(whole, step)
    resumed = make(npu_fused(), optimizer=EmbOptimType.ADAM)
    state = whole.state_dict()
    assert {"iter", "momentum1_host", "momentum2_host"} <= set(state)
    if way != "state_dict":
        state["iter"] = torch.zeros_like(state["iter"])
    resumed.load_state_dict(state)
    if way == "set_optimizer_step":
        resumed.set_optimizer_step(3)
    elif way == "iter":
        resumed.iter.fill_(3)
    for module in (whole, resumed):
        with torch.no_grad():
            module(*batch(7, SAME))  # no step
        adam_step(module, 3)
        adam_step(module, 4)
    assert int(resumed.iter) == 5
    for a, b in zip(whole.split_embedding_weights(), resumed.split_embedding_weights(), strict=True):
        assert torch.equal(a, b)


def test_a_module_is_copied_in_the_middle_of_training() -> None:
    module = make(npu_fused(), optimizer=EmbOptimType.ADAM)
    adam_step(module, 0)
    copied = copy.deepcopy(module)
    for each in (module, copied):
        adam_step(each, 1)
    assert_same_state(copied, module, rtol=0, atol=0)


def test_sixteen_bit_dense_tables() -> None:
    """Gradients of equal rows are summed in fp32 and rounded once."""
    from torchrec.distributed.npu_dense_embedding_kernel import NpuDenseTableBatchedEmbeddingBags

    subject = NpuDenseTableBatchedEmbeddingBags(
        [(4, 8)], torch.device("cpu"), weights_precision=SparseType.FP16, pooling_mode=PoolingMode.SUM
    )
    out = subject(torch.tensor([1, 1, 1, 3]), torch.tensor([0, 3, 4]))
    rows = subject.weights.detach().view(4, 8).float()
    torch.testing.assert_close(out, torch.stack([3 * rows[1], rows[3]]))
    grad = torch.randn(2, 8)
    out.backward(grad)
    expected = torch.zeros(4, 8).index_add(0, torch.tensor([1, 3]), grad * torch.tensor([[3.0], [1.0]]))
    assert torch.equal(subject.weights.grad.view(4, 8), expected.half())
