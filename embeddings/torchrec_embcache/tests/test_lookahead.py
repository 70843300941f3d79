"""The look-ahead: shortened when the cache is small, batches out of order, failures of the thread, metrics."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig
from rows import assert_used_disk
from streams import assert_same, power_law, train, whole
from torchrec_embcache import CacheConfig, CachedTable, StoreError, StoreIOError

BATCHES = power_law(30, 120, 1500, seed=3, exponent=0.8)
CONFIG = TableConfig(name="item", dim=4)


def distinct_ids(batches: list[torch.Tensor]) -> int:
    return len(torch.cat(batches).unique())


class SlowTraining(list[torch.Tensor]):
    """Batches; the second comes when the prefetch thread has met one that does not fit, busy as the machine may be."""

    cached: CachedTable

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield self[0]
        deadline = time.monotonic() + 60
        while not self.cached.metrics.counters().shortened and time.monotonic() < deadline:
            time.sleep(0.001)
        yield from self[1:]


def test_a_small_cache_shortens_the_look_ahead_and_says_so_once() -> None:
    rows = max(distinct_ids(BATCHES[i : i + 2]) for i in range(len(BATCHES)))
    resident, cached = HashTable(CONFIG), CachedTable(CONFIG, CacheConfig(cache_rows=rows, evict_share=0.0))
    batches = SlowTraining(BATCHES)
    batches.cached = cached
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(cached, batches, ahead=8)
    train(resident, BATCHES)
    assert_same(whole(cached), whole(resident))
    (warning,) = caught
    message = rf"table 'item'.*shortened to \d batches.*\d+ distinct ids.*cache_rows={rows}"
    assert re.search(message, str(warning.message))
    assert cached.metrics.counters().shortened > 0  # how often is a matter of time
    cached.close()


def test_rows_are_there_before_the_batch_trains() -> None:
    """With time to fetch, no batch waits; without prefetch every one does."""
    cached = CachedTable(CONFIG, CacheConfig(cache_rows=400))
    train(cached, BATCHES[:10])
    assert cached.metrics.counters().late_batches == 10
    cached.prefetch(BATCHES[10])
    deadline = time.monotonic() + 60
    while not cached._prefetcher._queue[0].ready and time.monotonic() < deadline:
        time.sleep(0.01)
    cached.assign(BATCHES[10], train=True)
    assert cached.metrics.counters().late_batches == 10
    cached.close()


def test_size_and_ids_are_true_while_rows_come_and_go() -> None:
    """Rows that the look-ahead moves are counted once, wherever they are just then."""
    ids = torch.arange(4000)
    cached = CachedTable(CONFIG, CacheConfig(cache_rows=400, evict_share=0.0))
    train(cached, list(ids.split(100)))
    sizes = set()
    for first in 5 * list(range(0, 3900, 100)):
        cached.prefetch(ids[first : first + 100])
        while not cached._prefetcher._queue[0].ready:
            sizes.add(len(cached))
        cached.prefetch(ids[first : first + 100].flip(0))
        cached.prefetch(ids[first : first + 100] + 100)
        assert torch.equal(cached.ids().sort().values, ids)
        cached.cancel_prefetch()
    assert sizes == {len(ids)}
    cached.close()


def test_batches_that_were_not_prefetched_may_come_between() -> None:
    resident, cached = HashTable(CONFIG), CachedTable(CONFIG, CacheConfig(cache_rows=700, evict_share=0.0))
    order = [BATCHES[5], BATCHES[0], BATCHES[7], BATCHES[1], BATCHES[2]]
    for ids in BATCHES[:3]:
        cached.prefetch(ids)
    train(cached, order)
    train(resident, order)
    assert_same(whole(cached), whole(resident))
    cached.prefetch(BATCHES[3])
    cached.cancel_prefetch()
    train(cached, BATCHES[4:6], first=9)
    train(resident, BATCHES[4:6], first=9)
    assert_same(whole(cached), whole(resident))
    cached.close()


def test_rows_written_from_outside_are_not_overwritten_by_what_was_fetched() -> None:
    cached = CachedTable(CONFIG, CacheConfig(cache_rows=200, evict_share=1.0))
    train(cached, BATCHES[:6])
    old = cached.read(BATCHES[0].unique())[0]
    cached.prefetch(BATCHES[0])
    deadline = time.monotonic() + 60
    while not cached._prefetcher._queue[0].ready and time.monotonic() < deadline:
        time.sleep(0.01)
    new = RowBatch.from_named_tensors({**old.named_tensors(), "weights": old.weights + 1})
    cached.write(new)
    slots = cached.assign(BATCHES[0], train=False)
    expected = dict(zip(new.ids.tolist(), new.weights))
    assert all(torch.equal(row, expected[one]) for one, row in zip(BATCHES[0].tolist(), cached.lookup(slots)))
    gone = BATCHES[0].unique()[:7]
    before = len(cached)
    assert cached.erase(gone) == 7 and len(cached) == before - 7
    assert not bool(cached.read(gone)[1].any())
    assert len(cached.pop(BATCHES[1].unique())) > 0 and not bool(cached.read(BATCHES[1])[1].any())
    assert sorted(cached.ids().tolist()) == sorted(whole(cached).ids.tolist()) and len(cached) == len(cached.ids())
    cached.close()


class Failing:
    """A store that fails while it is told to."""

    def __init__(self, store: object) -> None:
        self.store = store
        self.fails = False

    def __len__(self) -> int:
        return len(self.store)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        if name in ("read", "fetch", "write") and self.fails:
            raise StoreIOError("the disk is on fire")
        return getattr(self.store, name)


def test_failures_of_the_threads_reach_the_training_thread(folder: Path) -> None:
    """And nothing is lost: when the disk is back, training goes on as if nothing had been."""
    resident = HashTable(CONFIG)
    cached = CachedTable(CONFIG, CacheConfig(cache_rows=150, host_rows=0, folder=folder, evict_share=0.0))
    disk = Failing(cached._tiers.store._store)
    cached._tiers.store._store = disk  # type: ignore[assignment]
    train(resident, BATCHES)
    train(cached, BATCHES[:10])
    failures = 0
    for step in range(10, 30):
        disk.fails = step in (14, 20, 21)
        if step % 2:
            cached.prefetch(BATCHES[step])
        while True:
            try:
                train(cached, [BATCHES[step]], first=step)
                break
            except StoreError as error:
                assert "on fire" in str(error)
                failures += 1
                disk.fails = False
    assert_used_disk(cached, 100)
    cached.flush()
    assert failures >= 2
    assert cached.step == resident.step and cached.updates == resident.updates
    assert_same(whole(cached), whole(resident))
    cached.close()


@pytest.mark.parametrize("version_of", ["change", "all"])
def test_changes_of_the_whole_table(version_of: str) -> None:
    """changed_since knows rows that were trained and have left the device since."""
    resident, cached = HashTable(CONFIG), CachedTable(CONFIG, CacheConfig(cache_rows=130))
    versions = []
    for table in (resident, cached):
        train(table, BATCHES[:5])
        versions.append(table.changed_since(0)[2])
        train(table, BATCHES[5:12], first=5)
        table.erase(BATCHES[2][:5].unique())
    expected, gone, _ = resident.changed_since(versions[0] if version_of == "change" else 0)
    rows, erased, _ = cached.changed_since(versions[1] if version_of == "change" else 0)
    assert len(rows.ids.unique()) == len(rows)
    mine = set(rows.ids.tolist())
    assert set(expected.ids.tolist()) <= mine
    assert set(gone.tolist()) == set(erased.tolist())
    chosen = torch.tensor([one in set(expected.ids.tolist()) for one in rows.ids.tolist()])
    assert_same(rows.select(chosen).sorted_by_id(), expected.sorted_by_id())
    cached.close()


def test_rows_that_are_only_read_stay_until_the_next_batch() -> None:
    """Prefetching evicts on a thread of its own, but nothing between assign(train=False) and the lookup."""
    rows = max(distinct_ids(BATCHES[i : i + 2]) for i in range(len(BATCHES) - 1)) + 2  # two batches, no third
    cached = CachedTable(CONFIG, CacheConfig(cache_rows=rows, evict_share=1.0))
    train(cached, BATCHES)
    for ids in BATCHES[:4]:
        slots = cached.assign(ids, train=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the look-ahead is shortened, as it must be
            for later in BATCHES[20:22]:
                cached.prefetch(later)
            deadline = time.monotonic() + 0.5
            while not cached._prefetcher._queue[1].ready and time.monotonic() < deadline:
                time.sleep(0.001)
        there, found = cached.read(ids)
        assert bool(found.all()) and torch.equal(cached.lookup(slots), there.weights)
        assert torch.equal(cached.find(ids), slots)
        cached.cancel_prefetch()
    cached.close()
