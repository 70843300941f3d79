"""Figures of cached tables: against what the batches say, Prometheus' own parser and TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path

import torch
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.table import TableConfig
from hybrid_torchrec.table_metrics import TableMetrics
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from streams import power_law, train
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from torchrec_embcache import CacheConfig, CachedTable, CacheMetrics

BATCHES = power_law(30, 120, 1500, seed=3, exponent=0.8)
ROWS = 260
ROW_BYTES = 4 * 4 + 16


def trained() -> CachedTable:
    return CachedTable(TableConfig(name="item", dim=4), CacheConfig(cache_rows=ROWS))


def test_counters_are_those_of_the_batches() -> None:
    cached, metrics = trained(), Metrics()
    figures = CacheMetrics(metrics, {"item": cached})
    for first in (0, 15):
        train(cached, BATCHES[first : first + 15], ahead=1)
        figures.update()
    counters = cached.metrics.counters()
    assert metrics.value("cache_batches", table="item") == 30
    lookups = sum(len(ids.unique()) for ids in BATCHES)
    assert metrics.value("cache_lookups", table="item") == lookups
    hits = metrics.value("cache_hits", table="item")
    assert 0 < hits < lookups and metrics.value("cache_hit_rate", table="item") == hits / lookups
    evicted, fetched = (metrics.value(name, table="item") for name in ("evicted_rows", "fetched_rows"))
    assert evicted - fetched == len(cached) - cached.device_rows and fetched > 0
    assert metrics.value("bytes_from_device", table="item") == evicted * ROW_BYTES
    assert metrics.value("bytes_to_device", table="item") == fetched * ROW_BYTES
    assert metrics.value("prefetch_wait_seconds", table="item") == counters.prefetch_wait_seconds
    assert metrics.value("device_rows", table="item") == cached.device_rows <= ROWS
    assert metrics.value("cache_rows", table="item") == ROWS
    cached.close()


def test_parts_of_a_table_are_added_up() -> None:
    parts, metrics = [trained(), trained()], Metrics()
    figures = CacheMetrics(metrics, {"item": parts})
    for part in parts:
        train(part, BATCHES[:5])
    figures.update()
    assert metrics.value("cache_batches", table="item") == 10 and metrics.value("cache_rows", table="item") == 2 * ROWS
    for part in parts:
        part.close()


def test_a_batch_that_is_waited_for_is_counted() -> None:
    cached, metrics = trained(), Metrics()
    figures = CacheMetrics(metrics, {"item": cached})
    cached.assign(torch.tensor([1, 2, 2]), train=True)  # was not prefetched
    figures.update()
    assert metrics.value("late_batches", table="item") == 1 and metrics.value("prefetch_wait_seconds", table="item") > 0
    cached.close()


def test_prometheus_and_tensorboard_have_both_kinds_of_figures(tmp_path: Path) -> None:
    cached, metrics = trained(), Metrics(rank="1")
    watched = [TableMetrics(metrics, {"item": cached}), CacheMetrics(metrics, {"item": cached})]
    train(cached, BATCHES, ahead=1)
    for one in watched:
        one.update()
    families = {f.name: f for f in text_string_to_metric_families(generate_latest(metrics.registry()).decode())}
    evicted = families["hybrid_torchrec_evicted_rows"]
    assert evicted.type == "counter" and families["hybrid_torchrec_occupancy"].type == "gauge"
    assert families["hybrid_torchrec_cache_hit_rate"].type == "gauge"
    sample = next(sample for sample in evicted.samples if sample.name.endswith("_total"))
    assert sample.labels == {"rank": "1", "table": "item"}
    assert sample.value == cached.metrics.counters().evicted_rows > 0
    assert families["hybrid_torchrec_occupancy"].samples[0].value == cached.device_rows / ROWS
    assert families["hybrid_torchrec_rows"].samples[0].value == len(cached) > ROWS
    with SummaryWriter(str(tmp_path)) as writer:
        metrics.write_tensorboard(writer, 7)
    events = EventAccumulator(str(tmp_path)).Reload()
    (rate,) = events.Scalars("hybrid_torchrec/item/cache_hit_rate")
    assert rate.step == 7 and abs(rate.value - metrics.value("cache_hit_rate", table="item")) < 1e-6
    for name in ("hit_rate", "evictions", "prefetch_wait_seconds", "bytes_to_device", "occupancy"):
        assert f"hybrid_torchrec/item/{name}" in events.Tags()["scalars"]
    cached.close()
