"""TableMetrics: what tables do, in figures: hit rate, occupancy, admissions, evictions."""

from __future__ import annotations

from collections.abc import Mapping

from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.table.hash_table import HashTable

_COUNTERS = {
    "lookups": "ids looked up",
    "hits": "ids that had a row",
    "admissions": "ids that were given a row",
    "evictions": "rows that the policy removed",
}
_ATTRIBUTES = {"admissions": "insertions"}


class TableMetrics:
    """Carries the counters of `tables` over to `metrics`, with the label `table`; call update() when it suits.

    hit_rate = hits / lookups; occupancy: see HashTable.occupancy, of a cached table that of the cache.
    """

    def __init__(self, metrics: Metrics, tables: Mapping[str, HashTable]) -> None:
        self._metrics = metrics
        self._tables = dict(tables)
        self._before = {name: self._values(table) for name, table in self._tables.items()}
        metrics.ratio("hit_rate", "hits", "lookups", help="share of ids looked up that had a row")

    def update(self) -> None:
        for name, table in self._tables.items():
            values = self._values(table)
            for counter, help in _COUNTERS.items():
                # A load sets counters to what they were then.
                grown = max(0, values[counter] - self._before[name][counter])
                self._metrics.add(counter, grown, help=help, table=name)
            self._before[name] = values
            self._metrics.set("rows", len(table), help="rows in the table", table=name)
            self._metrics.set("occupancy", table.occupancy, help="share of the device's rows in use", table=name)
            self._metrics.set("table_bytes", table.bytes(), help="memory of rows and ids", table=name)

    @staticmethod
    def _values(table: HashTable) -> dict[str, int]:
        return {counter: getattr(table, _ATTRIBUTES.get(counter, counter)) for counter in _COUNTERS}
