"""Distributions, and that values depend on (seed, id, column) only."""

import numpy as np
import pytest
import torch
from hybrid_torchrec import (
    Constant,
    Filled,
    HashTable,
    Initializer,
    Normal,
    TableConfig,
    TruncatedNormal,
    Uniform,
    hashing,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """SplitMix64's finaliser in Python's integers."""
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def unit_row(seed: int, key: int, width: int) -> np.ndarray:
    """The numbers in (0, 1) behind a row."""
    start = mix(mix((seed + GAMMA) & MASK) ^ ((key + GAMMA) & MASK))
    words = [mix((start + GAMMA * (i + 1)) & MASK) for i in range((width + 1) // 2)]
    bits = [part for word in words for part in (word >> 32, word & 0xFFFFFFFF)]
    return (np.array(bits[:width], dtype=np.float64) + 0.5) / 2**32


CASES = [
    (Constant(value=0.5), lambda u: np.full_like(u, 0.5), stats.uniform(0, 1)),
    (Uniform(low=-2.0, high=3.0), lambda u: -2 + 5 * u, stats.uniform(-2, 5)),
    (Normal(mean=1.0, std=0.3), lambda u: stats.norm.ppf(u, 1.0, 0.3), stats.norm(1.0, 0.3)),
    (TruncatedNormal(mean=1.0, std=2.0, low=-1.0, high=2.5), None, stats.truncnorm(-1.0, 2.5, 1.0, 2.0)),
]


@pytest.mark.parametrize(("initializer", "of_unit", "law"), CASES, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("width", [1, 7, 64])
def test_values(initializer: Initializer, of_unit: object, law: object, width: int) -> None:
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 12345]
    rows = initializer.rows(torch.tensor(keys), width, 99).numpy()
    of_unit = of_unit or law.ppf
    for key, row in zip(keys, rows, strict=True):
        np.testing.assert_allclose(row, of_unit(unit_row(99, key, width)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("initializer", "of_unit", "law"), CASES[1:], ids=lambda case: type(case).__name__)
def test_distribution(initializer: Initializer, of_unit: object, law: object) -> None:
    rows = initializer.rows(torch.arange(4000), 50, 7).double().numpy()
    assert stats.kstest(rows.ravel(), law.cdf).pvalue > 1e-3
    # Neighbouring ids and columns know nothing of each other: |r| of 200,000 pairs is below 5 / sqrt(200,000).
    for a, b in ((rows[1:], rows[:-1]), (rows[:, 1:], rows[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_far_tails() -> None:
    """Probabilities of 1e-12 on either side."""
    for low, high in ((-7.0, -6.5), (6.0, 7.0), (-7.0, 7.0)):
        initializer = TruncatedNormal(mean=0.0, std=1.0, low=low, high=high)
        rows = initializer.rows(torch.arange(500), 4, 3)
        # The upper tail is as fine as doubles near 1 are.
        assert rows.min() >= low - 1e-5 and rows.max() <= high + 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_same_vector_in_any_order_on_any_device(device: str, dtype: torch.dtype) -> None:
    ids = torch.arange(100) * 10**15
    config = TableConfig(name="t", dim=9, dtype=dtype, initializer=Normal(), seed=4)
    one, other = HashTable(config), HashTable(config, device)
    one.assign(ids, train=True)
    for i in torch.randperm(100).tolist():
        other.assign(ids[i : i + 1], train=True)
    assert torch.equal(one.read(ids)[0].weights, other.read(ids)[0].weights.cpu())
    assert torch.equal(one.lookup(torch.tensor([0])), other.lookup(torch.tensor([0], device=device)).cpu())
    assert not torch.equal(one.read(ids)[0].weights, one.read(ids.flip(0))[0].weights)


def test_by_insertion() -> None:
    config = TableConfig(name="t", dim=4, initializer=Uniform(per_id=False))
    one, other = HashTable(config), HashTable(config)
    for table, ids in ((one, [5, 6, 7]), (other, [10, 11])):
        table.assign(torch.tensor(ids), train=True)
    assert torch.equal(one.lookup(torch.tensor([1, 2])), other.lookup(torch.tensor([1, 2])))
    other.erase(torch.tensor([10, 11]))
    other.assign(torch.tensor([10]), train=True)
    assert torch.equal(one.lookup(one.find(torch.tensor([7]))), other.lookup(other.find(torch.tensor([10]))))


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 1000))
def test_ranks(ids: list[int], world: int) -> None:
    tensor = torch.tensor(ids)
    hashes = [mix(id & MASK) for id in ids]
    assert [h & MASK for h in hashing.mix64(tensor).tolist()] == hashes
    assert [h & MASK for h in hashing.mix64_portable(tensor).tolist()] == hashes
    assert hashing.rank_of(tensor, world).tolist() == [h % world for h in hashes]


def test_wrong_initialisers_are_refused() -> None:
    for wrong in (
        lambda: Uniform(low=1.0, high=0.0),
        lambda: Normal(std=-1.0),
        lambda: TruncatedNormal(low=2.0, high=1.0),
        lambda: TruncatedNormal(low=-9.0),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_a_function_of_the_caller_fills_rows_by_id() -> None:
    """torch's own functions draw from torch's generator: an id has its row whichever ids come with it."""
    normal = Filled(fill=torch.nn.init.normal_)
    before = torch.random.get_rng_state()
    ids = torch.tensor([7, -1, 2**62, 0])
    rows = normal.rows(ids, 33, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(normal.rows(ids[2:3], 33, seed=5)[0], rows[2]) and rows.unique().numel() > 4 * 32
    assert not torch.equal(normal.rows(ids, 33, seed=6), rows)
    many = normal.rows(torch.arange(500), 40, seed=1).double().numpy()
    assert stats.kstest(many.ravel(), stats.norm(0, 1).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(many[1:].ravel(), many[:-1].ravel())[0, 1]) < 5 / np.sqrt(many.size)
    half = Filled(fill=lambda parameter: parameter.data.copy_(torch.linspace(0, 1, parameter.shape[1])[None]))
    table = HashTable(TableConfig(name="t", dim=5, initializer=half))
    slots = table.assign(ids, train=True)
    torch.testing.assert_close(table.lookup(slots), torch.linspace(0, 1, 5).repeat(4, 1))
