"""MemoryStore: rows in host memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import torch
from hybrid_torchrec.policies import AdmitAll
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

NONE = torch.empty(0, dtype=torch.int64)


class MemoryStore:
    """Rows in a HashTable on the CPU; gone with the process."""

    def __init__(self, config: TableConfig) -> None:
        rows = replace(config, admission=AdmitAll(), eviction=None, max_rows=None, initial_capacity=1024)
        self._table = HashTable(rows, "cpu")
        self._lock = threading.Lock()

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        return self._table.read(ids)

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        return [self._table.read(ids)[0]]

    def write(self, rows: RowBatch) -> None:
        with self._lock:
            self._table.write(rows)
            if len(rows):  # ages are counted from it
                self._table.step = max(self._table.step, int(rows.last_step.max()))

    def erase(self, ids: torch.Tensor) -> int:
        with self._lock:
            return self._table.erase(ids)

    def __len__(self) -> int:
        return len(self._table)

    def bytes(self) -> int:
        return self._table.bytes()

    def oldest(self, count: int) -> RowBatch:
        """The ``count`` rows that were trained least recently."""
        return self._table.rows_at(self._table.backend.ids.victims(count, self._table.step, NONE))

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        for ids in self._table.ids().split(chunk):
            rows, _ = self._table.read(ids)
            if len(rows):
                yield rows

    def flush(self) -> None:
        """Memory has nothing to flush."""

    def close(self) -> None:
        """Nothing to close; the memory goes with the object."""
