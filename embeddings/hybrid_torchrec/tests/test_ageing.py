"""The oldest rows are looked for once for several evictions: each of them gives what looking at all rows would."""

import math
import random
from fractions import Fraction

import pytest
import torch
from hybrid_torchrec import HashTable, TableConfig
from hybrid_torchrec.row_batch import RowBatch

NONE = torch.empty(0, dtype=torch.int64)
LRU_RANKING = (1, 1.0, 0.0, 1.0, 0)


def rows_of(last_steps: dict[int, int]) -> RowBatch:
    count = len(last_steps)
    return RowBatch(
        ids=torch.tensor(list(last_steps), dtype=torch.int64),
        weights=torch.zeros(count, 2),
        state={},
        shows=torch.ones(count),
        clicks=torch.zeros(count),
        last_step=torch.tensor(list(last_steps.values()), dtype=torch.int64),
    )


class Aged:
    """A table beside a dict of the last steps of its ids; random changes, and evictions that are compared."""

    def __init__(self, seed: int, rows: int) -> None:
        self.random = random.Random(seed)
        self.table = HashTable(TableConfig(name="t", dim=2, initial_capacity=rows))
        self.table.step = 50
        self.ids = range(-rows, rows)
        self.last = {id: self.random.randrange(40) for id in self.some(rows)}
        self.table.write(rows_of(self.last))
        self.evicted = 0

    def some(self, most: int, among: list[int] | None = None) -> list[int]:
        pool = list(self.ids if among is None else among)
        return self.random.sample(pool, min(len(pool), self.random.randint(most // 2, most)))

    def train(self) -> None:
        ids = self.some(12)
        self.table.assign(torch.tensor(ids), train=True)
        self.last |= {id: max(self.table.step, self.last.get(id, 0)) for id in ids}

    def write(self) -> None:
        """Rows of any age, new ones and those that are there."""
        step = self.table.step
        rows = {id: self.random.choice([step, step - 1, 45, self.random.randrange(50)]) for id in self.some(12)}
        self.table.write(rows_of(rows))
        self.last |= rows

    def erase(self) -> None:
        for id in (gone := self.some(6)):
            self.last.pop(id, None)
        self.table.erase(torch.tensor(gone))

    def step_back(self) -> None:
        """As a table does that loads a checkpoint of before: its next steps are those of old rows."""
        self.table.step = self.random.randrange(30, 50)

    def evict(self) -> None:
        keep = set(self.some(self.random.choice([0, 4, 8, 40]), list(self.last)))
        count = self.random.choice([1, 5, 12, 12, 25])
        order = sorted((last, id) for id, last in self.last.items() if id not in keep)
        expected = [id for _, id in order[:count]]
        assert self.table.select_victims(count, torch.tensor(sorted(keep), dtype=torch.int64)).tolist() == expected
        if self.random.random() < 0.8:
            self.table.erase(torch.tensor(expected))
            for id in expected:
                del self.last[id]
            self.evicted += len(expected)


@pytest.mark.parametrize("seed", range(12))
def test_victims_are_those_of_a_sort_of_all_rows(seed: int) -> None:
    aged = Aged(seed, 400)
    for _ in range(300):
        changes = [aged.train, aged.train, aged.train, aged.write, aged.write, aged.erase, aged.evict, aged.evict]
        aged.random.choice(changes)()
        if aged.random.random() < 0.01:
            aged.step_back()
    assert aged.evicted > 300 and len(aged.table) == len(aged.last) > 200


def test_most_rows_may_be_kept() -> None:
    """More than are looked for at once: nothing is left to go, or little."""
    table = HashTable(TableConfig(name="t", dim=2))
    table.write(rows_of({id: id % 7 for id in range(1000)}))
    ids = table.ids()
    assert table.select_victims(10, ids).tolist() == []
    assert table.select_victims(10, ids[ids != 500]).tolist() == [500]
    assert table.select_victims(3).tolist() == [0, 7, 14]
    assert table.select_victims(3, torch.arange(0, 994, 7)).tolist() == [994, 1, 8]
    assert table.select_victims(3).tolist() == [0, 7, 14]


def test_put_inserts_and_replaces() -> None:
    index = torch.classes.hybrid_torchrec.HashIndex(0)
    first = index.put(torch.tensor([5, -3, 9]), torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3), torch.tensor([7, 8, 9]))
    assert first.tolist() == [1, 2, 3]
    version = index.next_version()
    assert index.erase(torch.tensor([-3])).tolist() == [2]
    ids = torch.tensor([9, 11, 5, 12])
    shows, clicks, last = torch.tensor([4.0, 5.0, 6.0, 7.0]), torch.tensor([0.5, 0.0, 1.5, 0.0]), torch.arange(20, 24)
    slots = index.put(ids, shows, clicks, last)
    assert slots.tolist() == [3, 2, 1, 4] and index.find(ids).tolist() == slots.tolist() and index.size() == 4
    for given, known in zip((ids, shows, clicks, last), index.infos(slots), strict=True):
        assert torch.equal(given, known)
    assert index.changed_slots(version).tolist() == [1, 2, 3, 4]
    assert index.erased_ids(0).tolist() == [-3]
    assert index.victims(1, *LRU_RANKING, 99, NONE).tolist() == [3]
    with pytest.raises(RuntimeError, match="differ in length"):
        index.put(ids, shows[:2], clicks, last)


@pytest.mark.parametrize("seed", range(8))
def test_coldest_are_those_of_a_sort_of_all_rows(seed: int) -> None:
    """Steps since the last sighting, less some for each doubling of the sightings, a part for a part of one.

    From 2^d to 2^(d + 1) sightings what they are worth grows evenly. Of those that are as old, the lowest slots go.
    """
    draw = random.Random(seed)
    count, step, worth = 500, 6000, draw.choice([0, 3, 20, 90])
    shows = [draw.choice([0.25, 1.0, 1.5, 2.0, 3.0, 3.9, 4.0, 100.0, 2.0**20]) for _ in range(count)]
    last = [
        draw.choice([step, step + 1, step - 5, draw.randrange(step - 60, step), draw.randrange(step)]) for _ in shows
    ]
    index = torch.classes.hybrid_torchrec.HashIndex(0)
    slots = index.put(torch.arange(count), torch.tensor(shows), torch.zeros(count), torch.tensor(last)).tolist()
    gone = draw.sample(range(count), 50)
    index.erase(torch.tensor(gone))
    keep = draw.sample(slots, 100)

    def worth_of(shows: float) -> int:
        doublings = math.floor(math.log2(shows))
        return max(0, math.floor(worth * (doublings + Fraction(shows) / Fraction(2) ** doublings - 1)))

    shows = torch.tensor(shows).tolist()  # as the index has them
    ages = {
        slots[k]: min(max(-1024, max(0, step - last[k]) - worth_of(shows[k])), 3071)
        for k in range(count)
        if k not in gone and slots[k] not in keep
    }
    order = sorted(ages, key=lambda slot: (-ages[slot], slot))
    kept = torch.tensor([*keep, -1, 0, 10**6])
    for wanted in (0, 1, 7, 150, len(order), count):
        assert index.coldest(wanted, worth, step, kept).tolist() == order[:wanted]
    with pytest.raises(RuntimeError, match="must not be negative"):
        index.coldest(1, -1, step, kept)
