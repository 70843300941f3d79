"""WriteBehind: writes to a slower store in the background."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from functools import cached_property

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.background import background_thread
from torchrec_embcache.errors import StoreIOError
from torchrec_embcache.native import IdPositions
from torchrec_embcache.store.base import RowStore


class _Waiting:
    """Rows that wait, and where the row of an id is among them, once a reader asks."""

    def __init__(self, rows: RowBatch) -> None:
        self.rows = rows

    @cached_property
    def positions(self) -> IdPositions:
        return IdPositions(self.rows.ids)

    def find(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        """The rows of those of ids (L,) that wait, in their order, and which do, (L,) bool."""
        positions = self.positions.find(ids)
        here = positions >= 0
        return self.rows.select(positions[here]), here


class WriteBehind:
    """Rows that wait are read as if they were written. At most ``limit`` rows wait; then write() waits.

    A failed write is raised by the next check, flush, erase or count, and then tried again: no row is dropped.
    """

    def __init__(self, store: RowStore, *, limit: int, name: str) -> None:
        self._store = store
        self._name = name
        self._limit = limit
        self._waiting: deque[_Waiting] = deque()  # the first may be on its way
        self._rows = 0
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._stop = False
        self._thread = background_thread(self._run, f"write-back of {name}")
        self._thread.start()

    def write(self, rows: RowBatch) -> None:
        if not len(rows):
            return
        with self._changed:
            # Rows that leave the device must be somewhere, so they wait also after a failure.
            self._changed.wait_for(
                lambda: (
                    self._failure is not None or not self._rows or self._rows + len(rows) <= self._limit or self._stop
                )
            )
            self._check_open()
            self._waiting.append(_Waiting(rows))
            self._rows += len(rows)
            self._changed.notify_all()

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        parts, positions, rest = self._found_waiting(ids)
        if not parts:
            return self._store.read(ids)
        stored, found = self._store.read(ids[rest])
        parts.append(stored)
        positions.append(rest[found])
        at = torch.cat(positions)
        found = torch.zeros(len(ids), dtype=torch.bool)
        found[at] = True
        return RowBatch.concat(parts).select(torch.argsort(at)), found

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        parts, _, rest = self._found_waiting(ids)
        return [*parts, *self._store.fetch(ids[rest])] if parts else self._store.fetch(ids)

    def _found_waiting(self, ids: torch.Tensor) -> tuple[list[RowBatch], list[torch.Tensor], torch.Tensor]:
        """Rows that wait, the newest of each id, where in ids (L,) their ids are, and where the others are."""
        with self._changed:
            waiting = list(self._waiting)
        # Whatever leaves the queue after this moment is in the store already.
        parts: list[RowBatch] = []
        positions: list[torch.Tensor] = []
        rest = torch.arange(len(ids))
        for batch in reversed(waiting):
            if not len(rest):
                break
            rows, here = batch.find(ids[rest])
            if len(rows):
                parts.append(rows)
                positions.append(rest[here])
                rest = rest[~here]
        return parts, positions, rest

    def erase(self, ids: torch.Tensor) -> int:
        self.drain()
        return self._store.erase(ids)

    def __len__(self) -> int:
        self.drain()
        return len(self._store)

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        self.drain()
        return self._store.scan(chunk)

    def check(self) -> None:
        """Raises if a write has failed."""
        with self._changed:
            self._raise_failure()

    def drain(self) -> None:
        """Waits until nothing waits."""
        with self._changed:
            self._raise_failure()
            self._changed.wait_for(lambda: self._failure is not None or not self._waiting or self._stop)
            self._raise_failure()
            if self._waiting:
                self._check_open()

    def flush(self) -> None:
        self.drain()
        self._store.flush()

    def close(self) -> None:
        """Writes what waits, and closes the store, also if that fails; again does nothing."""
        if self._stop:
            return
        try:
            self.drain()
        finally:
            with self._changed:
                self._stop = True
                self._changed.notify_all()
            self._thread.join()
            self._store.close()

    @property
    def waiting(self) -> int:
        """Rows that wait."""
        return self._rows

    @property
    def closed(self) -> bool:
        return self._stop

    def _check_open(self) -> None:
        if self._stop:
            lost = f"; {self._rows} rows could not be written" if self._rows else ""
            raise StoreIOError(f"table '{self._name}' is closed; make it again to go on{lost}")

    def _raise_failure(self) -> None:
        """Raises a failure once; the thread then tries again."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self._changed.notify_all()
            raise failure

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or (self._waiting and self._failure is None))
                if self._stop:
                    return
                rows = self._waiting[0].rows
            failure = None
            try:
                self._store.write(rows)
            except Exception as error:  # whoever writes next is told
                failure = error
            with self._changed:
                if failure is None:
                    self._waiting.popleft()
                    self._rows -= len(rows)
                self._failure = failure
                self._changed.notify_all()
