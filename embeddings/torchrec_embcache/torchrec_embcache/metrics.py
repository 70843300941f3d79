"""CacheMetrics: what caches do, in figures: hit rate, rows and bytes moved, waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hybrid_torchrec.metrics import Metrics

from torchrec_embcache.cache import CachedTable
from torchrec_embcache.counters import Counters

_COUNTERS = {
    "batches": ("cache_batches", "batches that the look-ahead has reached"),
    "lookups": ("cache_lookups", "distinct ids of these batches"),
    "hits": ("cache_hits", "distinct ids that were on the device, or on their way there"),
    "fetched_rows": ("fetched_rows", "rows brought to the device"),
    "evicted_rows": ("evicted_rows", "rows that left the device"),
    "bytes_to_device": ("bytes_to_device", "bytes of rows brought to the device"),
    "bytes_from_device": ("bytes_from_device", "bytes of rows that left the device"),
    "late_batches": ("late_batches", "batches whose rows were not ready in time"),
    "shortened": ("shortened_batches", "batches that had to wait for room in the cache"),
    "prefetch_wait_seconds": ("prefetch_wait_seconds", "seconds that training waited for rows"),
}


class CacheMetrics:
    """Carries the counters of cached tables over to `metrics`, with the label `table`; call update() when it suits.

    tables: by name, one or the parts of a sharded one (cached_tables() of a collection). cache_hit_rate = cache_hits /
    cache_lookups. Gauges: device_rows, cache_rows, and write_back_rows, which wait for the tier below. Figures of the
    whole table come from hybrid_torchrec.table_metrics.TableMetrics, into the same Metrics.
    """

    def __init__(self, metrics: Metrics, tables: Mapping[str, CachedTable | Sequence[CachedTable]]) -> None:
        self._metrics = metrics
        self._tables = {name: [of] if isinstance(of, CachedTable) else list(of) for name, of in tables.items()}
        self._before = {name: Counters() for name in self._tables}
        metrics.ratio("cache_hit_rate", "cache_hits", "cache_lookups", help="share of distinct ids in the cache")

    def update(self) -> None:
        for name, parts in self._tables.items():
            now = _sum([part.metrics.counters() for part in parts])
            before = asdict(self._before[name])
            for field, (figure, help) in _COUNTERS.items():
                self._metrics.add(figure, getattr(now, field) - before[field], help=help, table=name)
            self._before[name] = now
            gauges = {
                "device_rows": (sum(part.device_rows for part in parts), "rows on the device"),
                "cache_rows": (sum(part.cache.cache_rows for part in parts), "rows that the device has room for"),
                "write_back_rows": (sum(part.waiting_rows for part in parts), "rows that wait for write-back"),
            }
            for figure, (value, help) in gauges.items():
                self._metrics.set(figure, value, help=help, table=name)


def _sum(counters: Sequence[Counters]) -> Counters:
    total = Counters()
    for one in counters:
        for field, value in asdict(one).items():
            setattr(total, field, getattr(total, field) + value)
    return total
