"""MemoryStore: rows in host memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import torch
from hybrid_torchrec.backends.ids import HostIndex
from hybrid_torchrec.policies import AdmitAll
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

NONE = torch.empty(0, dtype=torch.int64)


class MemoryStore:
    """Rows in a HashTable on the CPU; gone with the process.

    It knows which rows were written since all of them were `saved` elsewhere: only those need be written there again.
    """

    def __init__(self, config: TableConfig) -> None:
        rows = replace(config, admission=AdmitAll(), eviction=None, max_rows=None, initial_capacity=1024)
        self._table = HashTable(rows, "cpu")
        self._lock = threading.Lock()
        self._saved = 0  # rows of this version and later ones were written since

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
            gone = self._table.erase(ids)
            # Versions are counted to tell rows apart, not for whoever asks which ids went.
            self._table.forget_changes(self._table.index.version() + 1)
            return gone

    def __len__(self) -> int:
        return len(self._table)

    def bytes(self) -> int:
        return self._table.bytes()

    # What a store above another one asks; slots (N,) are valid until the next write, or until their rows are erased.

    def oldest(self, count: int) -> torch.Tensor:
        """Slots of the ``count`` rows that were trained least recently; of the same step, neighbours in memory."""
        return cast(HostIndex, self._table.index).coldest(count, 0, self._table.step, NONE)

    def ids_at(self, slots: torch.Tensor) -> torch.Tensor:
        return self._table.index.infos(slots)[0]

    def unsaved(self, slots: torch.Tensor) -> RowBatch:
        """Those of the rows at slots that were written since saved()."""
        written = self._table.index.versions()[slots] >= self._saved
        return self._table.rows_at(slots if bool(written.all()) else slots[written])

    def all_unsaved(self, chunk: int) -> Iterator[RowBatch]:
        """At most ``chunk`` at a time; nothing may be written meanwhile."""
        for slots in self._table.index.changed_slots(self._saved).split(chunk):
            if len(slots):
                yield self._table.rows_at(slots)

    def saved(self) -> None:
        """All rows, as they are, are also elsewhere."""
        with self._lock:
            self._saved = self._table.index.next_version()

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        for ids in self._table.ids().split(chunk):
            rows, _ = self._table.read(ids)
            if len(rows):
                yield rows

    def flush(self) -> None:
        """Memory has nothing to flush."""

    def close(self) -> None:
        """Nothing to close; the memory goes with the object."""
