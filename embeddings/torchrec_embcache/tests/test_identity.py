"""Training with a cache gives the bits of training with the whole table resident."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.initializers import Normal
from hybrid_torchrec.optimizers import KINDS, OptimizerSpec
from hybrid_torchrec.policies import AdmitAfter
from hybrid_torchrec.table import HashTable, TableConfig
from rows import assert_used_disk
from streams import assert_same, power_law, train, whole
from torchrec_embcache import CacheConfig, CachedTable, CacheTooSmall

BATCHES = power_law(40, 120, 1500, seed=3, exponent=0.8)


def widest(batches: list[torch.Tensor], count: int) -> int:
    """The most distinct ids in ``count`` batches in a row: what a cache that only just fits must hold."""
    return max(len(torch.cat(batches[i : i + count]).unique()) for i in range(len(batches)))


def check(config: TableConfig, cache: CacheConfig, ahead: int, batches: list[torch.Tensor] = BATCHES) -> CachedTable:
    resident = HashTable(config)
    expected = train(resident, batches)
    cached = CachedTable(config, cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = train(cached, batches, ahead=ahead)
    if cache.folder is not None:
        assert_used_disk(cached, 100)
    assert torch.equal(total, expected)
    assert_same(whole(cached), whole(resident))
    assert cached.updates == resident.updates and cached.step == resident.step
    return cached


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead", [1, 4])
def test_every_optimizer(kind: str, ahead: int, folder: Path) -> None:
    config = TableConfig(name="item", dim=8, optimizer=OptimizerSpec(kind=kind, lr=0.05, weight_decay=0.01))
    rows = widest(BATCHES, ahead + 1) + 5
    cache = CacheConfig(cache_rows=rows, host_rows=100, folder=folder, slab_bytes=1 << 14, evict_share=0.05)
    cached = check(config, cache, ahead)
    counters = cached.metrics.counters()
    assert counters.evicted_rows > 100 and counters.fetched_rows > 100  # it did come and go
    cached.close()


@pytest.mark.parametrize("ahead", range(9))
def test_a_cache_that_only_just_fits(ahead: int, folder: Path) -> None:
    """k = 0 is without prefetch. A row less shortens the look-ahead; see test_lookahead."""
    config = TableConfig(name="item", dim=4, optimizer=OptimizerSpec(kind="adam", lr=0.05))
    rows = widest(BATCHES, ahead + 1)
    cached = check(config, CacheConfig(cache_rows=rows, host_rows=0, folder=folder, evict_share=0.0), ahead)
    assert cached.metrics.counters().shortened == 0
    cached.close()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_storage_types(dtype: torch.dtype, folder: Path) -> None:
    config = TableConfig(name="item", dim=8, dtype=dtype, optimizer=OptimizerSpec(kind="rowwise_adagrad"))
    check(config, CacheConfig(cache_rows=520, host_rows=100, folder=folder), 3).close()


def test_rows_that_start_by_their_order() -> None:
    config = TableConfig(name="item", dim=8, initializer=Normal(per_id=False), optimizer=OptimizerSpec(kind="adagrad"))
    check(config, CacheConfig(cache_rows=520), 3).close()


def test_admission_after_sightings() -> None:
    config = TableConfig(name="item", dim=8, admission=AdmitAfter(sightings=3), optimizer=OptimizerSpec(kind="adam"))
    check(config, CacheConfig(cache_rows=520), 3).close()


def test_evaluation_between_batches() -> None:
    config = TableConfig(name="item", dim=8, optimizer=OptimizerSpec(kind="adagrad"))
    resident, cached = HashTable(config), CachedTable(config, CacheConfig(cache_rows=700, evict_share=0.0))
    for ids in BATCHES[:6]:
        cached.prefetch(ids)
    for step, ids in enumerate(BATCHES[:30]):
        if step + 6 < 30:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cached.prefetch(BATCHES[step + 6])
        looked_up = []
        for table in (resident, cached):
            slots = table.assign(ids, train=True)
            table.update(slots, table.lookup(slots) + step)
            past = torch.cat(BATCHES[max(0, step - 2) : step + 1])
            looked_up.append(table.lookup(table.assign(past, train=False)))
        assert torch.equal(*looked_up)
    assert_same(whole(cached), whole(resident))
    cached.close()


def test_gradients_of_several_batches() -> None:
    """Rows of all batches whose gradients wait stay; a cache without room for them says so."""
    config = TableConfig(name="item", dim=8, optimizer=OptimizerSpec(kind="adam"))
    rows = widest(BATCHES, 3)
    tables = [HashTable(config), CachedTable(config, CacheConfig(cache_rows=rows, evict_share=0.0))]
    for table in tables:
        for step, ids in enumerate(BATCHES[:30]):
            slots = table.assign(ids, train=True)
            table.update(slots, table.lookup(slots) * 0.5 + 1, apply=step % 3 == 2)
    assert_same(whole(tables[1]), whole(tables[0]))
    with pytest.raises(CacheTooSmall, match="no update keep .* accumulate gradients over fewer"):
        for ids in BATCHES:
            slots = tables[1].assign(ids, train=True)
            tables[1].update(slots, tables[1].lookup(slots), apply=False)
    tables[1].close()  # type: ignore[attr-defined]


def test_training_goes_on_from_the_disk(folder: Path) -> None:
    config = TableConfig(name="item", dim=8, optimizer=OptimizerSpec(kind="adam", lr=0.05))
    cache = CacheConfig(cache_rows=520, host_rows=20, folder=folder)
    resident = HashTable(config)
    for half in (BATCHES[:20], BATCHES[20:]):
        train(resident, half)
    before = CachedTable(config, cache)
    train(before, BATCHES[:20], ahead=2)
    assert_used_disk(before, 30)  # 61 to 101 in 20 runs: what waits to be written is not read from disk
    before.close()
    after = CachedTable(replace(config, initial_capacity=0), cache)
    after.step, after.updates = before.step, before.updates
    train(after, BATCHES[20:], ahead=2)
    assert_same(whole(after), whole(resident))
    after.close()
