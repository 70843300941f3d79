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

    hit_rate = hits / lookups; occupancy = rows / max_rows, or of a table without limit rows / slots with memory.
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
            rows, most = len(table), table.config.max_rows or table.capacity - 1
            self._metrics.set("rows", rows, help="rows in the table", table=name)
            self._metrics.set("occupancy", rows / most if most else 1.0, help="share of the rows in use", table=name)
            self._metrics.set("table_bytes", table.bytes(), help="memory of rows and ids", table=name)

    @staticmethod
    def _values(table: HashTable) -> dict[str, int]:
        return {counter: getattr(table, _ATTRIBUTES.get(counter, counter)) for counter in _COUNTERS}
