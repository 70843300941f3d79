"""TieredStore: host memory over disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.store.base import RowStore
from torchrec_embcache.store.memory import MemoryStore

SPILL_SHARE = 1 / 16  # of the host rows, at least, go to disk at once: choosing them looks at all
SPILLED_AT_ONCE = 4096  # rows, so that what is copied on the way stays in the nearer caches


class TieredStore:
    """At most ``host_rows`` rows in ``host``, the ones trained last; the others in ``disk``.

    A row in ``host`` is newer than one on disk, or the same: what is on disk as it is, is not written there again. Only
    flush() makes the disk hold everything.
    """

    def __init__(self, host: MemoryStore, disk: RowStore, host_rows: int) -> None:
        self._host = host
        self._disk = disk
        self._host_rows = host_rows
        self._lock = threading.RLock()

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        with self._lock:
            near, found = self._host.read(ids)
            absent = ids[~found]
            far, there = self._disk.read(absent) if len(absent) else (None, None)
        if far is None or there is None or not len(far):
            return near, found
        positions = torch.cat([found.nonzero().squeeze(1), (~found).nonzero().squeeze(1)[there]])
        found = found.clone()
        found[positions] = True
        return RowBatch.concat([near, far]).select(torch.argsort(positions)), found

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        with self._lock:
            near, found = self._host.read(ids)
            absent = ids[~found]
            return [near, *(self._disk.fetch(absent) if len(absent) else ())]

    def write(self, rows: RowBatch) -> None:
        with self._lock:
            self._host.write(rows)
            excess = len(self._host) - self._host_rows
            if excess > 0:
                self._spill(max(excess, int(self._host_rows * SPILL_SHARE)))

    def _spill(self, count: int) -> None:
        for slots in self._host.oldest(count).split(SPILLED_AT_ONCE):
            unsaved = self._host.unsaved(slots)
            if len(unsaved):
                self._disk.write(unsaved)  # a failure leaves them in host memory
            self._host.erase(self._host.ids_at(slots))

    def erase(self, ids: torch.Tensor) -> int:
        with self._lock:
            distinct = ids.unique()
            _, near = self._host.read(distinct)
            _, far = self._disk.read(distinct)
            self._host.erase(distinct)
            self._disk.erase(distinct)
            return int((near | far).sum())

    def __len__(self) -> int:
        """Rows; looks up every row in host memory."""
        with self._lock:
            return len(self._disk) + sum(int((~self._disk.read(rows.ids)[1]).sum()) for rows in self._host.scan(65536))

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        """Host memory first: a row that is spilled meanwhile is found on disk, and not given again."""
        near = [torch.empty(0, dtype=torch.int64)]
        for rows in self._host.scan(chunk):
            near.append(rows.ids)
            yield rows
        given = torch.cat(near).sort().values
        for rows in self._disk.scan(chunk):
            rows = rows.select(~_among(rows.ids, given))
            newer, found = self._host.read(rows.ids)
            if len(newer):
                rows = RowBatch.concat([rows.select(~found), newer])
            if len(rows):
                yield rows

    def flush(self) -> None:
        with self._lock:
            for rows in self._host.all_unsaved(65536):
                self._disk.write(rows)
            self._disk.flush()
            self._host.saved()

    def close(self) -> None:
        """Flushes, then closes, also if that fails."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._disk.close()


def _among(ids: torch.Tensor, ascending: torch.Tensor) -> torch.Tensor:
    """Which of ids (L,) are in ascending (N,); (L,) bool."""
    if not len(ascending):
        return torch.zeros(len(ids), dtype=torch.bool)
    return ascending[torch.searchsorted(ascending, ids).clamp_(max=len(ascending) - 1)] == ids
