"""Rows of 16 bits, rounded by chance: to one of two neighbours of the float64 result, right on average."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from embedding_cases import SUM, Module, Optimizer, Tables, aggregate

HAS_NPU = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"
ROWS, DIM = 600, 67
OPTIMIZERS = {
    "sgd": Optimizer("sgd", learning_rate=0.01),
    "adagrad": Optimizer("adagrad", learning_rate=0.01),
    "rowwise_adagrad": Optimizer("rowwise_adagrad", learning_rate=0.01),
    "adam": Optimizer("adam", learning_rate=0.01),
    "adamw": Optimizer("adam", learning_rate=0.01, weight_decay=0.1),
}
DTYPES = [torch.float16, torch.bfloat16]
# What float32 arithmetic may differ from float64, in parts of the result.
SLACK = 2.0**-20


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def neighbours(exact: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The greatest number of dtype up to `exact` (float64), and the least one from it on; both float64."""
    near = exact.to(dtype)
    below = torch.where(near.double() > exact, torch.nextafter(near, torch.full_like(near, -torch.inf)), near)
    above = torch.where(near.double() < exact, torch.nextafter(near, torch.full_like(near, torch.inf)), near)
    return below.double(), above.double()


def step(
    optimizer: Optimizer, weights: torch.Tensor, grad: torch.Tensor, device: str, seed: int = 0, by_chance: bool = True
) -> torch.Tensor:
    """weights (R, D) after a step in which row r has the gradient grad[r]."""
    rows, dim = weights.shape
    module = Module(Tables([rows], [dim]), optimizer, weights.flatten().clone().to(device))
    torch.manual_seed(seed)
    indices, offsets = torch.arange(rows, device=device), torch.arange(rows + 1, device=device)
    module.lookup(indices, offsets, SUM, stochastic_rounding=by_chance).backward(grad.to(device))
    return module.weights.cpu().view(rows, dim)


def drawn(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and gradients."""
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(ROWS, DIM, generator=generator).to(t) for t in (dtype, torch.float32))


def expected(optimizer: Optimizer, weights: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """In float64, not rounded."""
    tables = Tables([ROWS], [DIM])
    result = weights.double().flatten().numpy()
    states = optimizer.states(tables)
    optimizer.apply(tables, result, *states, aggregate(tables, grad.numpy(), np.arange(ROWS), np.arange(ROWS + 1), SUM))
    return torch.from_numpy(result).view(ROWS, DIM)


def chances(exact: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(lower neighbour, spacing, chance of the upper one)."""
    below, above = neighbours(exact, dtype)
    spacing = torch.where(above > below, above - below, torch.ones_like(exact))
    return below, spacing, (exact - below) / spacing


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_neighbours_and_right_on_average(name: str, dtype: torch.dtype, device: str) -> None:
    weights, grad = drawn(dtype)
    exact = expected(OPTIMIZERS[name], weights, grad)
    got = step(OPTIMIZERS[name], weights, grad, device).double()
    slack = SLACK * exact.abs() + 1e-9
    assert (got >= neighbours(exact - slack, dtype)[0]).all()
    assert (got <= neighbours(exact + slack, dtype)[1]).all()
    below, spacing, chance = chances(exact, dtype)
    up = (got - below) / spacing
    error = 4 * (chance * (1 - chance)).sum().sqrt()
    assert abs((up - chance).sum()) < error
    tenths = (chance * 10).long().clamp(0, 9)
    for tenth in range(10):  # seldom where the upper neighbour is far, often where it is near
        there = tenths == tenth
        deviation = (up[there] - chance[there]).sum()
        assert abs(deviation) < 4 * (chance[there] * (1 - chance[there])).sum().sqrt(), tenth
    assert 0.3 < up.mean() < 0.7


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_to_the_nearest_where_it_is_off(name: str, dtype: torch.dtype, device: str) -> None:
    weights, grad = drawn(dtype)
    exact = expected(OPTIMIZERS[name], weights, grad)
    got = step(OPTIMIZERS[name], weights, grad, device, by_chance=False)
    slack = SLACK * exact.abs() + 1e-9
    clear = (exact - slack).to(dtype) == (exact + slack).to(dtype)
    assert torch.equal(got[clear], exact.to(dtype)[clear]) and clear.double().mean() > 0.95
    assert torch.equal(got, step(OPTIMIZERS[name], weights, grad, device, seed=1, by_chance=False))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_can_be_represented_stays(name: str, dtype: torch.dtype, device: str) -> None:
    weights, grad = drawn(dtype)
    weights[0, :4] = torch.tensor([0.0, 2.0**-14, -(2.0**-24), 60000.0]).to(dtype)
    still = Optimizer(**{**vars(OPTIMIZERS[name]), "learning_rate": 0.0})
    for seed in range(3):
        assert torch.equal(step(still, weights, grad, device, seed), weights)
    if name == "sgd":
        halves = torch.randint(-8, 9, (ROWS, DIM)) / 2
        got = step(Optimizer("sgd", learning_rate=0.5), halves.to(dtype), halves, device)
        assert torch.equal(got.float(), halves / 2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_seed_says_what_is_drawn(name: str, dtype: torch.dtype, device: str) -> None:
    weights, grad = drawn(dtype)
    first, again, other = (step(OPTIMIZERS[name], weights, grad, device, seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    _, _, chance = chances(expected(OPTIMIZERS[name], weights, grad), dtype)
    changed = 2 * chance * (1 - chance)  # of two draws that know nothing of each other
    deviation = (first != other).double().sum() - changed.sum()
    assert abs(deviation) < 4 * (changed * (1 - changed)).sum().sqrt()


def test_threads_draw_nothing_of_their_own(dtype: torch.dtype) -> None:
    """Rows that occur once and rows that occur often, in any order."""
    generator = torch.Generator().manual_seed(2)
    tables = Tables([3000, 50], [64, 32])
    indices = torch.cat([torch.randint(0, n, (4000,), generator=generator) for n in tables.rows])
    offsets = torch.arange(0, 8001, 2)
    grad = torch.randn(2000, 96, generator=generator)
    results = []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            module = Module(tables, OPTIMIZERS["sgd"], torch.ones(tables.elements, dtype=dtype))
            torch.manual_seed(5)
            module.lookup(indices, offsets, SUM, stochastic_rounding=True).backward(grad)
            results.append(module.weights)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], result) for result in results[1:])
    assert results[0].unique().numel() > 10


def test_elements_draw_apart_from_each_other(dtype: torch.dtype, device: str) -> None:
    """Of neighbours in a row, in a column and in time: 40,000 pairs of independent draws correlate by 0.005."""
    weights = torch.ones(ROWS, DIM, dtype=dtype)
    spacing = 2.0**-10 if dtype == torch.float16 else 2.0**-7
    grad = torch.full((ROWS, DIM), -spacing / 2)
    optimizer = Optimizer("sgd", learning_rate=1.0)
    up, later = (2 * (step(optimizer, weights, grad, device, s).double() - 1) / spacing - 1 for s in (6, 7))
    assert set(up.unique().tolist()) == {-1.0, 1.0}
    pairs = {
        "columns": (up[:, 1:], up[:, :-1]),
        "rows": (up[1:], up[:-1]),
        "diagonals": (up[1:, 1:], up[:-1, :-1]),
        "distant columns": (up[:, 32:], up[:, :-32]),
        "steps": (up, later),
    }
    for name, (a, b) in pairs.items():
        assert abs((a * b).mean()) < 4 / a.numel() ** 0.5, name
    # and whole rows and columns: sums of independent signs have the deviation of their number's root
    for sums, count in ((up.sum(0), ROWS), (up.sum(1), DIM)):
        square = (sums**2).mean() / count
        assert abs(square - 1) < 4 * (2 / sums.numel()) ** 0.5


def test_small_steps_arrive(dtype: torch.dtype, device: str) -> None:
    """A hundredth of the spacing, two hundred times; to the nearest they never do."""
    spacing = 2.0**-10 if dtype == torch.float16 else 2.0**-7
    grad = torch.full((8, 128), spacing / 100)
    moved = []
    for by_chance in (True, False):
        tables = Tables([8], [128])
        module = Module(
            tables, Optimizer("sgd", learning_rate=1.0), torch.full((1024,), 1.5, dtype=dtype, device=device)
        )
        torch.manual_seed(8)
        indices, offsets = torch.arange(8, device=device), torch.arange(9, device=device)
        for _ in range(200):
            module.lookup(indices, offsets, SUM, stochastic_rounding=by_chance).backward(grad.to(device))
        moved.append((1.5 - module.weights.cpu().double()) / spacing)
    chance = 0.01
    assert abs(moved[0].mean() - 2) < 4 * (200 * chance * (1 - chance) / 1024) ** 0.5
    assert (moved[1] == 0).all()


def test_numbers_of_all_sizes(dtype: torch.dtype, device: str) -> None:
    """Subnormal ones, those beyond the largest, infinite ones and such as are no numbers."""
    generator = torch.Generator().manual_seed(9)
    values = torch.randn(200, 64, generator=generator) * 10.0 ** torch.randint(-9, 5, (200, 64), generator=generator)
    values[0, :7] = torch.tensor([0.0, -0.0, 65504.0, 1e-38, torch.inf, -torch.inf, torch.nan])
    got = step(Optimizer("sgd", learning_rate=1.0), torch.zeros(200, 64, dtype=dtype), -values, device)
    assert torch.equal(got.isnan(), values.isnan())
    finite = values.isfinite() & (values.abs() < torch.finfo(dtype).max)
    below, above = neighbours(values.double(), dtype)
    at_neighbour = (got.double() == below) | (got.double() == above)
    assert at_neighbour[finite].all(), values[finite & ~at_neighbour]
    assert torch.equal(got.double()[values.isinf()], values.double()[values.isinf()])
    small = (
        torch.full((200, 64), 0.3 * 2.0**-24) if dtype == torch.float16 else torch.full((200, 64), 1 + 0.3 * 2.0**-7)
    )
    got = step(Optimizer("sgd", learning_rate=1.0), torch.zeros(200, 64, dtype=dtype), -small, device).double()
    below, spacing, chance = chances(small.double(), dtype)
    up = (got - below) / spacing
    assert abs((up - chance).mean()) < 4 * (0.21 / up.numel()) ** 0.5


def digests(device: str) -> list[str]:
    """Of a step with each dtype whose float32 result has no rounding of its own: from zero by SGD of rate 1."""
    found = []
    for dtype in DTYPES:
        generator = torch.Generator().manual_seed(3)
        values = torch.randn(50, 67, generator=generator) * 10.0 ** torch.randint(-9, 4, (50, 67), generator=generator)
        rows = step(Optimizer("sgd", learning_rate=1.0), torch.zeros(50, 67, dtype=dtype), values, device)
        found.append(hashlib.sha256(rows.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest())
    return found


def test_devices_and_instruction_sets_draw_the_same(fresh_process: Callable[..., Any]) -> None:
    """The instruction set is read once in a process; torch_npu is most of a start's time."""
    script = f"""
        import sys, torch, gr_ops
        gr_ops.load()
        sys.path.insert(0, "{Path(__file__).parent}")
        from test_stochastic_rounding import digests
        print(*digests("cpu"))
    """
    results = [digests("npu:0")] if HAS_NPU else []
    for instructions in ("generic", "avx2", "avx512"):
        ran = fresh_process(script, MXREC_CPU_CAPABILITY=instructions, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        assert ran.returncode == 0, ran.stderr
        results.append(ran.stdout.split())
    assert len(results) >= 3 and all(len(set(of_dtype)) == 1 for of_dtype in zip(*results, strict=True))
    assert len(set(results[0])) == len(DTYPES)


def test_the_backward_operator_draws_too(dtype: torch.dtype, device: str) -> None:
    weights, grad = drawn(dtype)
    module = Module(Tables([ROWS], [DIM]), OPTIMIZERS["sgd"], weights.flatten().clone().to(device))
    head = module.head()
    empty = torch.empty(0, device=device)
    shared = ("weights_placements", "weights_offsets", "D_offsets", "max_D", "hash_size_cumsum", "total_hash_size_bits")
    torch.manual_seed(0)
    torch.ops.mxrec.split_embedding_backward_codegen_sgd_unweighted_exact_cuda(
        grad_output=grad.to(device),
        dev_weights=module.weights,
        uvm_weights=empty,
        lxu_cache_weights=empty,
        **{name: head[name] for name in shared},
        mixed_D=False,
        indices=torch.arange(ROWS, device=device),
        offsets=torch.arange(ROWS + 1, device=device),
        pooling_mode=SUM,
        lxu_cache_locations=torch.empty(0, dtype=torch.int32, device=device),
        unused_=0,
        max_segment_length_per_warp=0,
        stochastic_rounding=True,
        info_B_num_bits=0,
        info_B_mask_int64=0,
        use_uniq_cache_locations=False,
        use_homogeneous_placements=False,
        learning_rate_tensor=torch.tensor(0.01),
    )
    got = module.weights.cpu().view(ROWS, DIM)
    assert torch.equal(got, step(OPTIMIZERS["sgd"], weights, grad, device))


def test_float32_draws_nothing(device: str) -> None:
    weights, grad = torch.ones(8, 4), torch.randn(8, 4)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    step(OPTIMIZERS["sgd"], weights, grad, device)
    torch.manual_seed(0)
    assert torch.equal(before, torch.get_rng_state())
    module = Module(Tables([8], [4]), OPTIMIZERS["sgd"], weights.flatten().clone().to(device))
    indices, offsets = torch.arange(8, device=device), torch.arange(9, device=device)
    out = module.lookup(indices, offsets, SUM, stochastic_rounding=True)
    state = torch.get_rng_state()
    out.backward(torch.ones_like(out))
    assert torch.equal(state, torch.get_rng_state())
