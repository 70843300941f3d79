"""Tables as they are on a CUDA device beside those of the CPU: the same calls, the same rows, the same slots."""

from collections.abc import Callable

import pytest
import torch
from hybrid_torchrec import (
    LFU,
    LRU,
    TTL,
    AdmitAfter,
    Constant,
    CustomScore,
    HashTable,
    Normal,
    OptimizerSpec,
    RowStats,
    Score,
    TableConfig,
    TableFull,
    TruncatedNormal,
    Uniform,
)
from hybrid_torchrec.optimizers import KINDS
from interpreted import DEVICE, ON_GPU, DeviceTable

BOTH = (HashTable, DeviceTable)
EXTREMES = torch.tensor([0, -1, 1, 2**63 - 1, -(2**63), 2**32, -(2**31)])


def config(**fields: object) -> TableConfig:
    return TableConfig(**{"name": "t", "dim": 4, "initial_capacity": 4, **fields})


def same(mine: HashTable, other: HashTable, *, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    rows, expected = (table.changed_since(0)[0].to("cpu").sorted_by_id() for table in (mine, other))
    for name, tensor in rows.named_tensors().items():
        torch.testing.assert_close(tensor, expected.named_tensors()[name], rtol=rtol, atol=atol)
    assert torch.equal(mine.ids(), other.ids()) and len(mine) == len(other)
    counted = [(t.hits, t.lookups, t.insertions, t.evictions, t.step, t.updates) for t in (mine, other)]
    assert counted[0] == counted[1]


def train(table: HashTable, dim: int, steps: int = 3) -> list[torch.Tensor]:
    """Pooled and unpooled steps; slots and results."""
    generator = torch.Generator().manual_seed(0)
    results = []
    for step in range(steps):
        ids = (torch.rand(40, generator=generator) ** 2 * 80).long() - 7
        slots = table.assign(ids, train=True)
        if step % 2:
            out = table.embed(slots)
        else:
            offsets = torch.tensor([0, 5, 5, 22, 40], device=table.device)
            factors = torch.rand(40, generator=generator).to(table.device) if step % 4 else None
            out = table.embed_pooled(slots, offsets, "mean" if step % 4 else "sum", factors)
        results += [slots.cpu(), out.detach().cpu()]
        out.backward(torch.randn(out.shape, generator=generator).to(table.device))
    return results


@pytest.mark.parametrize(
    ("kind", "decay"), [*((kind, 0.0) for kind in KINDS), ("sgd", 0.1), ("adamw", 0.1), ("lamb", 0.1), ("lion", 0.1)]
)
def test_optimizers(kind: str, decay: float) -> None:
    spec = OptimizerSpec(kind=kind, lr=0.05, weight_decay=decay)
    fields = {"dim": 7, "optimizer": spec, "initializer": Normal(std=0.5), "max_rows": 60, "eviction": LFU()}
    tables = [kind(config(**fields)) for kind in BOTH]
    for got, want in zip(*(train(table, 7) for table in reversed(tables)), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-6, atol=1e-6)
    same(tables[1], tables[0])


# The interpreter of Triton 3.2 cuts bfloat16 off instead of rounding.
@pytest.mark.parametrize("dtype", [torch.float16, *([torch.bfloat16] if ON_GPU else [])])
@pytest.mark.parametrize("stochastic", [False, True])
def test_sixteen_bits(dtype: torch.dtype, stochastic: bool) -> None:
    fields = {"dim": 5, "dtype": dtype, "optimizer": OptimizerSpec(lr=0.5), "stochastic_rounding": stochastic}
    tables = [kind(config(**fields)) for kind in BOTH]
    for table in tables:
        train(table, 5, steps=2)
    # A sum of another order may round to the neighbour.
    same(tables[1], tables[0], rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize(
    "initializer",
    [
        Constant(value=0.3),
        Uniform(low=-2.0, high=3.0),
        Normal(mean=1.0, std=2.0),
        TruncatedNormal(std=3.0, low=-1.5, high=6.0),
        Normal(per_id=False),
    ],
    ids=lambda value: type(value).__name__ + ("" if value.per_id else "-by-insertion"),
)
def test_first_values(initializer: object) -> None:
    """Bit by bit, but for the logarithm in a normal's tails."""
    ids = torch.cat([EXTREMES, torch.arange(100, 400 if ON_GPU else 120)])
    tables = [kind(config(dim=33, seed=-5, initializer=initializer)) for kind in BOTH]
    for table in tables:
        table.assign(ids[:5], train=True)
        table.assign(ids.flip(0), train=True)
    got, want = (table.read(ids)[0].weights.cpu() for table in reversed(tables))
    different = got != want
    assert different.float().mean() < 1e-3
    torch.testing.assert_close(got, want, rtol=2e-7, atol=0)
    assert isinstance(initializer, Normal | TruncatedNormal) or not different.any()


POLICIES: dict[str, Callable[[], dict[str, object]]] = {
    "lfu": lambda: {"eviction": LFU(share=0.2), "max_rows": 30},
    "lru": lambda: {"eviction": LRU(share=0.0), "max_rows": 30},
    "ttl": lambda: {"eviction": TTL(steps=3, interval=2)},
    "score": lambda: {"eviction": Score(click_weight=4.0, decay=0.5, share=0.0), "max_rows": 30},
    "custom": lambda: {"eviction": CustomScore(score=lambda stats: -stats.ids.float()), "max_rows": 30},
    "after": lambda: {"admission": AdmitAfter(sightings=3)},
    "sketch": lambda: {"admission": AdmitAfter(sightings=2, sketch=(512, 3)), "eviction": LFU(), "max_rows": 25},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    tables = [kind(config(**POLICIES[policy]())) for kind in BOTH]
    for table in tables:
        generator = torch.Generator().manual_seed(1)
        for step in range(7):
            table.assign((torch.rand(22, generator=generator) ** 3 * 60).long(), train=True)
            table.add_clicks(torch.arange(step, 10), torch.full((10 - step,), 0.5))
            table.assign(torch.arange(20), train=False)
    same(tables[1], tables[0])
    victims = [table.select_victims(9, keep=torch.arange(4)).tolist() for table in tables]
    assert victims[0] == victims[1]


def test_every_id_is_legal_and_slots_are_used_again() -> None:
    tables = [kind(config()) for kind in BOTH]
    found = []
    for table in tables:
        calls = [table.assign(EXTREMES.repeat(2), train=True), table.find(EXTREMES)]
        assert table.erase(torch.tensor([-(2**63), 1, 1, 77])) == 2
        calls += [table.find(EXTREMES), table.assign(torch.tensor([5, 6, -(2**63), 1, 5]), train=True)]
        rows = table.pop(torch.tensor([5, 99, 0]))
        calls += [rows.ids, table.find(torch.tensor([5, 0, 6]))]
        table.write(rows)
        calls.append(table.assign(torch.tensor([0, 5, 99]), train=False))
        found.append([call.tolist() for call in calls])
    assert found[0] == found[1]
    same(tables[1], tables[0])


def test_growth_and_rebuilding() -> None:
    """Thousands of ids through a small table, most of them erased again: keys without rows do not fill the map."""
    table = DeviceTable(config(dim=1, initial_capacity=0))
    before = table.index._buckets.mask
    rounds, size = (40, 4000) if ON_GPU else (6, 100)
    for i in range(rounds):
        ids = torch.arange(i * size, (i + 1) * size) * 7919
        slots = table.assign(ids, train=True)
        assert torch.equal(table.find(ids), slots) and len(slots.unique()) == size
        if i % 3:
            assert table.erase(ids) == size and (table.find(ids) == -1).all()
    kept = [i for i in range(rounds) if i % 3 == 0]
    assert len(table) == len(kept) * size and before < table.index._buckets.mask
    for i in kept:
        assert (table.find(torch.arange(i * size, (i + 1) * size) * 7919) > 0).all()
    assert table.index.capacity <= 4 * len(table)


def test_full_table_changes_nothing() -> None:
    for fields in ({}, {"eviction": LRU()}):
        table = DeviceTable(config(max_rows=3, **fields))
        table.assign(torch.tensor([1, 2, 3]), train=True)
        with pytest.raises(TableFull, match="3 rows of at most 3"):
            table.assign(torch.tensor([4, 1, 2, 3, 5, 4]), train=True)
        assert table.ids().tolist() == [1, 2, 3] and table.find(torch.tensor([4, 5])).tolist() == [-1, -1]
        assert table.read(torch.tensor([1, 2, 3]))[0].shows.tolist() == [2.0, 2.0, 2.0]  # they were seen, as on the CPU
        table.erase(torch.tensor([2]))
        assert table.assign(torch.tensor([9, 1]), train=True).tolist() == [2, 1]


def test_gradients_wait_and_changes_are_known() -> None:
    tables = [kind(config(optimizer=OptimizerSpec(kind="adagrad"))) for kind in BOTH]
    changes = []
    for table in tables:
        slots = table.assign(torch.arange(9), train=True)
        _, _, version = table.changed_since(0)
        table.update(slots[:4], torch.ones(4, 4, device=table.device), apply=False)
        table.erase(torch.tensor([0, 8]))
        table.update(slots[2:5], torch.ones(3, 4, device=table.device))
        rows, erased, _ = table.changed_since(version)
        changes.append((sorted(rows.ids.tolist()), sorted(erased.tolist())))
    assert changes[0] == changes[1] == ([1, 2, 3, 4], [0, 8])
    same(tables[1], tables[0])


def test_gradients_of_factors() -> None:
    gradients = []
    for kind in BOTH:
        table = kind(config(initializer=Normal(std=1.0)))
        slots = table.assign(torch.arange(12) % 5, train=True)
        offsets = torch.tensor([0, 3, 3, 12], device=table.device)
        gradients.append(table.sample_weight_gradients(slots, offsets, torch.ones(3, 4, device=table.device), "mean"))
    torch.testing.assert_close(gradients[1].cpu(), gradients[0], rtol=1e-6, atol=1e-6)


def test_device_of_results() -> None:
    table = DeviceTable(config())
    slots = table.assign(EXTREMES, train=True)
    assert slots.device.type == table.lookup(slots).device.type == DEVICE.type
    assert table.ids().device.type == table.read(EXTREMES)[1].device.type == "cpu"


@pytest.mark.parametrize("kind", BOTH)
def test_a_batch_whose_eviction_fails_leaves_the_ids_as_they_were(kind: type[HashTable]) -> None:
    """A user's score may raise anything. The new ids have no row, and get one later, at other places of a batch."""
    broken = [True]

    def score(stats: RowStats) -> torch.Tensor:
        if broken[0]:
            raise ZeroDivisionError("score")
        return stats.ids.float()

    table = kind(config(max_rows=8, eviction=CustomScore(score=score)))
    table.assign(torch.arange(8), train=True)
    with pytest.raises(ZeroDivisionError):
        table.assign(torch.arange(11, 5, -1), train=True)
    assert table.find(torch.arange(12)).cpu().tolist() == [*range(1, 9), -1, -1, -1, -1]
    broken[0] = False
    slots = table.assign(torch.arange(6, 12), train=True)
    assert sorted(table.ids().tolist()) == [4, 5, *range(6, 12)] and len(table) == 8
    assert torch.equal(table.find(torch.arange(6, 12)), slots) and len(slots.unique()) == 6
