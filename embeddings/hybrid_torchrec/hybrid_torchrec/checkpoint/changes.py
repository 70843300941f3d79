"""ChangeReader: one reader of a table's changes among several (deltas, the stream for serving)."""

from __future__ import annotations

import threading
import weakref

from torch import Tensor

from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.table.hash_table import HashTable

_readers: weakref.WeakKeyDictionary[HashTable, weakref.WeakSet[ChangeReader]] = weakref.WeakKeyDictionary()
_readers_lock = threading.Lock()  # a save in the background commits while others begin to read


class ChangeReader:
    """Reads what changed in `table` since mark(), or since the version of the last commit().

    The table keeps ids that were erased until every reader has committed past them.
    """

    def __init__(self, table: HashTable) -> None:
        self.table = table
        self._version = 0
        self._step = 0
        with _readers_lock:
            _readers.setdefault(table, weakref.WeakSet()).add(self)

    def mark(self) -> tuple[int, int]:
        """Where the table is now; pass it to commit() once everything up to here is saved."""
        with self.table.lock:
            return self.table.index.next_version(), self.table.step

    def peek(self, *, seen: bool = True) -> tuple[RowBatch, Tensor, tuple[int, int]]:
        """Rows that changed; ids (E,) that are gone; and what to commit() once they are saved.

        With `seen` also rows that were looked up in training, whose counters changed.
        """
        table = self.table
        with table.exclusive():
            rows, erased, version = table.changed_since(self._version, seen_after=self._step if seen else None)
            return rows, erased, (version, table.step)

    def commit(self, mark: tuple[int, int]) -> None:
        self._version, self._step = mark
        with _readers_lock:
            versions = [reader._version for reader in _readers[self.table]]
        if min(versions) > 0:
            self.table.forget_changes(min(versions))
