"""Lion against its paper in float64: Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2.

No other library of the image has it.
"""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hybrid_torchrec import HashTable, Normal, OptimizerSpec, RowBatch, TableConfig
from hybrid_torchrec.backends import npu
from hybrid_torchrec.checkpoint import Checkpointer
from torch_tables import torch_table

ROWS, STEPS = 40, 200
SPECS = (
    OptimizerSpec(kind="lion", lr=0.01),
    OptimizerSpec(kind="lion", lr=0.01, weight_decay=0.3, betas=(0.85, 0.95)),
)
DIMS = (1, 7, 16, 60)  # a column; vectors of each width and what is left; whole vectors; several of them


class Paper:
    """theta, m: (ROWS, D) float64; rows without a gradient stay as they are."""

    def __init__(self, theta: np.ndarray, spec: OptimizerSpec) -> None:
        self.theta = theta.astype(np.float64)
        self.m = np.zeros_like(self.theta)
        self.eta, self.decay, (self.beta1, self.beta2) = spec.lr, spec.weight_decay, spec.betas

    def step(self, rows: np.ndarray, gradients: np.ndarray) -> None:
        for row in np.unique(rows):
            g = gradients[rows == row].astype(np.float64).sum(0)  # of all occurrences
            c = self.beta1 * self.m[row] + (1 - self.beta1) * g
            direction = np.where(c > 0, 1.0, np.where(c < 0, -1.0, 0.0))
            self.theta[row] -= self.eta * (direction + self.decay * self.theta[row])
            self.m[row] = self.beta2 * self.m[row] + (1 - self.beta2) * g


def made(
    spec: OptimizerSpec, dim: int, device: str, *, generic: bool = False, **fields: object
) -> tuple[HashTable, torch.Tensor]:
    config = TableConfig(name="t", dim=dim, optimizer=spec, initializer=Normal(std=1.0), **fields)
    table = torch_table(config, device) if generic else HashTable(config, device)
    return table, table.assign(torch.arange(ROWS) * 11 - 60, train=True)


def batches(dim: int, steps: int = STEPS) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows (30,), of which some repeat and some are missing, and gradients (30, D); some are zero."""
    generator = torch.Generator().manual_seed(5)
    drawn = []
    for _ in range(steps):
        gradients = torch.randn(30, dim, generator=generator)
        gradients[torch.rand(30, generator=generator) < 0.1] = 0.0
        drawn.append((torch.randint(0, ROWS - 5, (30,), generator=generator), gradients))
    return drawn


def moments(table: HashTable, slots: torch.Tensor) -> np.ndarray:
    return table.state["momentum1"][slots].cpu().numpy()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("spec", SPECS, ids=["plain", "decay"])
@pytest.mark.parametrize("generic", [False, True], ids=["best", "generic"])
def test_many_steps(spec: OptimizerSpec, dim: int, generic: bool, device: str) -> None:
    table, slots = made(spec, dim, device, generic=generic)
    paper = Paper(table.lookup(slots).cpu().numpy(), spec)
    for rows, gradients in batches(dim):
        table.update(slots[rows.to(slots.device)], gradients.to(table.device))
        paper.step(rows.numpy(), gradients.numpy())
    np.testing.assert_allclose(table.lookup(slots).cpu().numpy(), paper.theta, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(moments(table, slots), paper.m, rtol=1e-5, atol=1e-6)
    assert list(table.state) == ["momentum1"]


@pytest.mark.parametrize("instructions", ["generic", "avx2"])
def test_each_set_of_instructions(instructions: str) -> None:
    """The processor's best one is in the test above; another is chosen when the library is loaded."""
    environment = {**os.environ, "MXREC_CPU_CAPABILITY": instructions, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    tests = f"{Path(__file__)}::test_many_steps"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "best and cpu", tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and f"{len(DIMS) * len(SPECS)} passed" in done.stdout, done.stdout[-2000:]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bit_rows_round_once_a_step(dtype: torch.dtype, device: str) -> None:
    spec, dim = SPECS[1], 29
    table, slots = made(spec, dim, device, dtype=dtype)
    paper = Paper(table.lookup(slots).double().cpu().numpy(), spec)
    relative = 2.0**-11 if dtype == torch.float16 else 2.0**-8
    for rows, gradients in batches(dim, steps=20):
        table.update(slots[rows.to(slots.device)], gradients.to(table.device))
        paper.step(rows.numpy(), gradients.numpy())
        stored = table.lookup(slots).double().cpu().numpy()
        assert (np.abs(stored - paper.theta) <= 1.01 * relative * np.maximum(np.abs(paper.theta), 1e-3) + 2e-6).all()
        paper.theta = stored  # from here on with the rounded rows


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stochastic_rounding(dtype: torch.dtype, device: str) -> None:
    """Steps that are a tenth of the rows' spacing: lost by rounding to nearest, right on average by chance."""
    spacing = 2.0**-10 if dtype == torch.float16 else 2.0**-7  # of numbers in [1, 2)
    spec, steps, dim = OptimizerSpec(kind="lion", lr=spacing / 10), 40, 256

    def moved(stochastic: bool) -> torch.Tensor:
        table, slots = made(spec, dim, device, dtype=dtype, stochastic_rounding=stochastic)
        batch, _ = table.read(torch.arange(ROWS) * 11 - 60)
        start = torch.full((ROWS, dim), 1.75, dtype=batch.weights.dtype, device=batch.weights.device)
        table.write(RowBatch.from_named_tensors({**batch.named_tensors(), "weights": start}))
        for _ in range(steps):
            table.update(slots, torch.ones(ROWS, dim, device=table.device))
        return (1.75 - table.lookup(slots).cpu()) / spacing

    assert not moved(False).any()
    by_chance = moved(True)
    assert torch.equal(by_chance, moved(True))
    # 4 spacings on average; an element's deviation is about sqrt(40 * 0.09), the mean's that of 10240 elements.
    assert abs(float(by_chance.mean()) - 4.0) < 0.1 and float(by_chance.std()) > 1.0


def test_what_takes_the_step_on_each_device(device: str) -> None:
    """gr_ops has no Lion: on an NPU its step is made of PyTorch's operators, the lookup stays gr_ops'."""
    table, _ = made(SPECS[0], 8, device)
    assert "lion" not in npu.KINDS and not npu.supports(SPECS[0], 8)
    if device != "cpu":
        assert isinstance(table.backend, npu.NpuBackend) and not table.backend._fused


def test_a_zero_direction_moves_nothing_and_decay_still_does(device: str) -> None:
    for spec in SPECS:
        table, slots = made(spec, 9, device)
        before = table.lookup(slots)
        table.update(slots, torch.zeros(ROWS, 9, device=table.device))
        torch.testing.assert_close(table.lookup(slots), before * (1.0 - spec.lr * spec.weight_decay))


@pytest.mark.parametrize("generic", [False, True], ids=["best", "generic"])
def test_directions_of_every_sort_of_number(generic: bool, device: str) -> None:
    """0 for zeros and for what is not a number, which momentum then remembers; else the sign, of the least ones too."""
    values = [0.0, -0.0, 1e-44, -1e-44, 1e30, -1e30, float("inf"), -float("inf"), float("nan"), 1.0, -1.0]
    want = [0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 0.0, 1.0, -1.0]
    for width in (1, 4, 8, 16, 33):  # a column, vectors of each width, and some of them
        spec = OptimizerSpec(kind="lion", lr=1.0, betas=(0.0, 0.5))
        table, slots = made(spec, width, device, generic=generic)
        gradients = torch.zeros(ROWS, width)
        gradients[: len(values)] = torch.tensor(values)[:, None]
        before = table.lookup(slots)
        table.update(slots, gradients.to(table.device))
        moved = (before - table.lookup(slots)).cpu()
        expected = torch.zeros(ROWS, width)
        expected[: len(values)] = torch.tensor(want)[:, None]
        torch.testing.assert_close(moved, expected, rtol=0, atol=1e-6)
        momentum = moments(table, slots)
        assert np.isnan(momentum[8]).all() and np.isfinite(momentum[:6]).all()


def test_saved_and_copied_tables_go_on_alike(tmp_path: Path, device: str) -> None:
    table, slots = made(SPECS[1], 12, device)
    first, second = batches(12, steps=20)[:10], batches(12, steps=20)[10:]
    for rows, gradients in first:
        table.update(slots[rows.to(slots.device)], gradients.to(table.device))
    Checkpointer(tmp_path, {"t": table}).save(1)
    loaded, _ = made(SPECS[1], 12, device)
    assert Checkpointer(tmp_path, {"t": loaded}).load() == 1
    tables = [table, loaded, copy.deepcopy(table)]
    for each in tables:
        places = each.assign(torch.arange(ROWS) * 11 - 60, train=False)
        for rows, gradients in second:
            each.update(places[rows.to(places.device)], gradients.to(each.device))
    for other in tables[1:]:
        want, got = (t.changed_since(0)[0].to("cpu").sorted_by_id() for t in (table, other))
        for name, tensor in want.named_tensors().items():
            assert torch.equal(tensor, got.named_tensors()[name]), name
