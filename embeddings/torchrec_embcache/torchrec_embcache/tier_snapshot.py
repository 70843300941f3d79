"""TierSnapshot: the rows below the device as they were at one moment, read while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.native import IdCounts

CHUNK = 65536  # rows read at a time


class TierSnapshot:
    """Made under the table's locks. The tiers below are scanned once, later and by another thread.

    Training changes a row below only after it has fetched it, and then the fetched row, which is still as it was, is
    put aside here. Ids are `settled` that need no look any more: they were on the device at the call, or are new since,
    or are given out or put aside. It takes about 32 to 64 bytes an id, and the rows that are fetched meanwhile.

    Args:
        count: rows below.
        device_ids: (N,) int64, of the rows that are not below.
        scan: gives the rows below, and versions of others; at most a number of rows at a time.
        forget: takes this object off the table's list.
    """

    def __init__(
        self,
        count: int,
        device_ids: torch.Tensor,
        scan: Callable[[int], Iterator[RowBatch]],
        forget: Callable[[TierSnapshot], None],
    ) -> None:
        self.count = count
        self._scan = scan
        self._forget = forget
        self._settled = IdCounts()
        self._aside: list[RowBatch] = []
        self._lock = threading.Lock()
        self.comes(device_ids)

    def leaves(self, rows: RowBatch) -> None:
        """Rows of below, as they are there; they are about to come to the device, to be overwritten or erased."""
        with self._lock:
            due = self._settle(rows.ids)
            if len(due):
                self._aside.append(rows.select(due).to("cpu"))

    def comes(self, ids: torch.Tensor) -> None:
        """Ids (N,) whose rows are about to be written below; those that were there have left before."""
        with self._lock:
            self._settle(ids)

    def batches(self) -> Iterator[RowBatch]:
        for rows in self._scan(CHUNK):
            with self._lock:
                due = self._settle(rows.ids)
            if len(due):
                yield rows if len(due) == len(rows) else rows.select(due)
            yield from self._take_aside()
        yield from self._take_aside()

    def release(self) -> None:
        self._forget(self)

    def _take_aside(self) -> list[RowBatch]:
        with self._lock:
            aside, self._aside = self._aside, []
        return aside

    def _settle(self, ids: torch.Tensor) -> torch.Tensor:
        """Positions (K,), ascending, of the ids that were not settled; compaction may make a scan meet one twice."""
        ids = ids.contiguous()
        positions = (~self._settled.contains(ids)).nonzero().squeeze(1)
        fresh, order = ids[positions].sort(stable=True)
        first = torch.ones(len(fresh), dtype=torch.bool)
        first[1:] = fresh[1:] != fresh[:-1]
        if not bool(first.all()):
            positions = positions[order[first]].sort().values
            fresh = ids[positions]
        self._settled.add(fresh)
        return positions
