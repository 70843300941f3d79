"""Ids that the next batches need: fetched once, counted as being there from then on, and never evicted."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig
from hybrid_torchrec.table.trained_rows import TrainedRows
from rows import assert_rows, rows_of
from streams import assert_same, power_law, train, whole
from torchrec_embcache import CacheConfig, CachedTable
from torchrec_embcache.counters import SharedCounters
from torchrec_embcache.prefetch import Prefetcher
from torchrec_embcache.store.memory import MemoryStore
from torchrec_embcache.store.tiered import TieredStore

CONFIG = TableConfig(name="item", dim=4, optimizer=OptimizerSpec(kind="adam", lr=0.05))
BATCHES = power_law(40, 60, 400, seed=11, exponent=0.8)


class Counting(MemoryStore):
    """Which ids were read, in which order."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.reads: list[list[int]] = []

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        self.reads.append(ids.tolist())
        return super().read(ids)

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        return [self.read(ids)[0]]


def kept_in_host_memory(fetched: list[RowBatch], still: Callable[[], bool]) -> RowBatch:
    """As where the device is not the CPU: rows wait for the training thread."""
    return RowBatch.concat(fetched)


def none_is_there(ids: torch.Tensor) -> torch.Tensor:
    return torch.full((len(ids),), -1)


def test_a_row_is_fetched_once_for_all_batches_that_wait_for_it() -> None:
    """A second copy would be read while the first one's batch trains: the disk's work twice, and the older state."""
    store, tally = Counting(), SharedCounters()
    store.write(rows_of(CONFIG, list(range(20)), 1))
    ahead = Prefetcher("item", 50, none_is_there, store, tally, kept_in_host_memory)
    batches = [torch.tensor(ids) for ids in ([1, 2, 3, 3], [2, 3, 4], [4, 1, 5, 5], [5, 1])]
    for ids in batches:
        ahead.submit(ids)
    staged = []
    for ids in batches:
        batch = ahead.take(ids)
        assert batch.staged is not None
        staged.append(sorted(batch.staged.ids.tolist()))
    assert staged == [[1, 2, 3], [4], [5], []]
    assert Counter(one for read in store.reads for one in read) == Counter(range(1, 6))
    counters = tally.counters()
    assert (counters.lookups, counters.hits) == (3 + 3 + 3 + 2, 0 + 2 + 2 + 2)
    ahead.finish()
    assert len(ahead._pinned) == 0 and ahead.pinned_slots().tolist() == []
    # Nobody needs them any more, and none is on the device: the next batch fetches again.
    assert sorted(ahead.take(torch.tensor([1, 9])).staged.ids.tolist()) == [1, 9]
    ahead.close()


def test_rows_that_wait_are_fetched_again_when_the_store_was_changed() -> None:
    store = Counting()
    store.write(rows_of(CONFIG, [1, 2, 3], 1))
    ahead = Prefetcher("item", 50, none_is_there, store, SharedCounters(), kept_in_host_memory)
    ids = torch.tensor([2, 1])
    ahead.submit(ids)
    deadline = time.monotonic() + 60
    while not ahead._queue[0].ready and time.monotonic() < deadline:
        time.sleep(0.001)
    store.write(rows_of(CONFIG, [2], 7))
    ahead.restart()
    staged = ahead.take(ids).staged
    assert staged is not None
    assert_rows(CONFIG, staged, {1: 1, 2: 7})
    assert sorted(staged.ids.tolist()) == [1, 2]
    ahead.close()


def test_host_memory_keeps_the_rows_that_were_trained_last() -> None:
    host, disk = MemoryStore(CONFIG), MemoryStore(CONFIG)
    store = TieredStore(host, disk, host_rows=40)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(1)).tolist()
    for step, one in enumerate(order):
        store.write(rows_of(CONFIG, [one], step))
    kept = sorted(row for rows in host.scan(100) for row in rows.ids.tolist())
    assert len(kept) <= 40 and set(kept) == set(order[-len(kept) :])
    rows, found = store.read(torch.arange(100))
    assert bool(found.all())
    assert_rows(CONFIG, rows, {one: step for step, one in enumerate(order)})


@pytest.mark.parametrize("ahead", range(1, 9))
def test_what_is_pinned_stays(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that only just fits evicts in most steps; each eviction is compared with what the batches need."""
    widest = max(len(torch.cat(BATCHES[i : i + ahead + 1]).unique()) for i in range(len(BATCHES)))
    resident, cached = HashTable(CONFIG), CachedTable(CONFIG, CacheConfig(cache_rows=widest, evict_share=0.0))
    evicted: list[int] = []
    evict = CachedTable.evict

    def watched(table: CachedTable, ids: torch.Tensor) -> None:
        batches = [*table._prefetcher._taken, *(batch for batch in table._prefetcher._queue if batch.admitted)]
        needed = {one for batch in batches for one in batch.submitted.tolist()}
        assert needed and not needed & set(ids.tolist())
        evicted.extend(ids.tolist())
        evict(table, ids)

    monkeypatch.setattr(CachedTable, "evict", watched)
    assert torch.equal(train(cached, BATCHES, ahead=ahead), train(resident, BATCHES))
    assert_same(whole(cached), whole(resident))
    assert len(evicted) > 20 and cached.metrics.counters().shortened == 0
    cached.close()


def test_rows_stay_until_their_update_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batch needs all the room there is: it waits for the step of the rows that have it."""
    resident, cached = HashTable(CONFIG), CachedTable(CONFIG, CacheConfig(cache_rows=8, evict_share=0.0))
    batches = [torch.arange(8 * step, 8 * step + 8) % 24 for step in range(9)]
    step = TrainedRows.apply_gradients
    made = []

    def slowly(table: HashTable) -> None:
        if table is cached:
            ids = batches[len(made)]
            for _ in range(20):  # the prefetch thread runs meanwhile
                slots = table.find(ids)
                assert bool((slots >= 0).all())
                with table._prefetcher.gate:
                    assert set(slots.tolist()) <= set(table._prefetcher.pinned_slots().tolist())
                time.sleep(0.001)
            made.append(ids)
        step(table)

    monkeypatch.setattr(TrainedRows, "apply_gradients", slowly)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the shortened look-ahead
        assert torch.equal(train(cached, batches, ahead=2), train(resident, batches))
    assert len(made) == len(batches)
    assert_same(whole(cached), whole(resident))
    cached.close()
