"""Rows of 16 bits that are rounded by chance: right on average, to a neighbour, and the same everywhere."""

import pytest
import torch
from hybrid_torchrec import Constant, HashTable, OptimizerSpec, TableConfig
from hybrid_torchrec.backends.torch import GenericBackend


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stochastic_rounding(dtype: torch.dtype) -> None:
    """Steps a hundred times smaller than the spacing of the values arrive on average, and are the same every time."""

    def train(stochastic: bool) -> torch.Tensor:
        spec = OptimizerSpec(kind="sgd", lr=1.0)
        config = TableConfig(
            name="t",
            dim=256,
            dtype=dtype,
            optimizer=spec,
            initializer=Constant(value=1.5),
            stochastic_rounding=stochastic,
        )
        table = HashTable(config)
        slots = table.assign(torch.arange(8), train=True)
        spacing = 2.0**-10 if dtype == torch.float16 else 2.0**-7
        for _ in range(200):
            table.update(slots, torch.full((8, 256), spacing / 100))
        return (1.5 - table.lookup(slots)) / spacing

    assert (train(False) == 0).all()
    moved = train(True)
    assert torch.equal(moved, train(True))
    # 2 spacings on average; each element's deviation is about sqrt(200 * 0.01), the mean's 1.4 / sqrt(2048).
    assert abs(float(moved.mean()) - 2.0) < 0.16
    assert moved.std() > 1.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stochastic_rounding_goes_to_a_neighbour(dtype: torch.dtype) -> None:
    """Of numbers of all sizes, subnormal ones of fp16 and infinity among them."""
    values = torch.cat([torch.randn(4000) * 10.0 ** torch.randint(-9, 5, (4000,)), torch.tensor([0.0, -0.0, 65504.0])])
    values = torch.cat([values, torch.tensor([float("inf"), float("-inf"), float("nan"), 1e-38, -1e-42])])
    spec = OptimizerSpec(kind="sgd", lr=1.0)
    config = TableConfig(
        name="t",
        dim=len(values),
        dtype=dtype,
        optimizer=spec,
        initializer=Constant(value=0.0),
        stochastic_rounding=True,
    )
    table = HashTable(config)
    slots = table.assign(torch.tensor([5]), train=True)
    table.update(slots, -values.unsqueeze(0))
    got = table.lookup(slots)[0].double()
    near = values.to(dtype)
    finite = values.isfinite()
    assert torch.equal(got[~finite].isnan(), values[~finite].isnan())
    up = torch.nextafter(near, torch.full_like(near, float("inf"))).double()
    down = torch.nextafter(near, torch.full_like(near, float("-inf"))).double()
    exact = values.double()
    allowed = (
        (got == near.double()) | ((exact > near.double()) & (got == up)) | ((exact < near.double()) & (got == down))
    )
    assert allowed[finite].all(), values[finite][~allowed[finite]]
    assert (got[finite] != near.double()[finite]).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stochastic_rounding_is_the_same_everywhere(dtype: torch.dtype, device: str) -> None:
    """Bit by bit: kernels, and PyTorch's operators on each device; normal, subnormal and infinite values."""
    width = 403
    values = torch.randn(40, width) * 10.0 ** torch.randint(-9, 6, (40, width)).float()
    values[0, :4] = torch.tensor([float("inf"), float("-inf"), 0.0, -0.0])
    fields = {"dtype": dtype, "stochastic_rounding": True, "seed": 11}
    config = TableConfig(name="t", dim=width, optimizer=OptimizerSpec(kind="sgd", lr=1.0), **fields)
    kernels, other = HashTable(config), HashTable(config, device)
    if device == "cpu":
        other._backend = GenericBackend(config, other._storage)
    for table in (kernels, other):
        slots = table.assign(torch.arange(40), train=True)
        for factor in (-1.0, 0.25):
            table.update(slots, factor * values.to(table.device))
    got, want = other.weights[:41].cpu(), kernels.weights[:41]
    # Not-a-number has many forms, and infinity less a quarter of itself is one of them.
    assert torch.equal(got.isnan(), want.isnan()) and int(want.isnan().sum()) == 2
    assert torch.equal(got.nan_to_num(nan=0.0).view(torch.int16), want.nan_to_num(nan=0.0).view(torch.int16))
