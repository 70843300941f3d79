"""LowerTiers: the rows of a table that are not on its device, in host memory and on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch
from hybrid_torchrec.table import RowBatch, TableConfig

from torchrec_embcache.config import CacheConfig
from torchrec_embcache.store.base import RowStore
from torchrec_embcache.store.disk import DiskStore
from torchrec_embcache.store.memory import MemoryStore
from torchrec_embcache.store.tiered import TieredStore
from torchrec_embcache.store.write_behind import WriteBehind
from torchrec_embcache.tier_snapshot import TierSnapshot


class LowerTiers:
    """The tiers below a device, with what snapshots and readers of changes must know of them.

    A row that was fetched stays in the tiers, where its older state is nobody's. All but read and scan are called under
    the table's locks.
    """

    def __init__(self, config: TableConfig, cache: CacheConfig) -> None:
        self.disk = _disk(config, cache)
        self.store = WriteBehind(_tiers(config, cache, self.disk), limit=cache.write_back_rows, name=config.name)
        self.count = len(self.store)  # rows that are not on the device
        self.snapshots: list[TierSnapshot] = []  # replaced, never changed: they end on other threads
        self._ending = threading.Lock()
        self._changed: list[tuple[int, torch.Tensor]] = []  # version, and ids that were written or erased here

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        return self.store.read(ids)

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        """All rows of the tiers, at most ``chunk`` at a time; also older states of rows on the device."""
        return self.store.scan(chunk)

    def receive(self, rows: RowBatch) -> None:
        """Rows that the device has, or had until now."""
        for snapshot in self.snapshots:
            snapshot.comes(rows.ids)
        self.store.write(rows)

    def overwrite(self, rows: RowBatch) -> None:
        """Rows from outside, none of which is on the device."""
        before, there = self.store.read(rows.ids)
        self.leave(before)
        self.count += int((~there).sum())
        self.receive(rows)

    def leave(self, rows: RowBatch) -> None:
        """Rows as they are here; they are about to come to the device, to be overwritten or erased."""
        for snapshot in self.snapshots:
            snapshot.leaves(rows)

    def erase(self, ids: torch.Tensor) -> torch.Tensor:
        """Which of the distinct ids (N,) the tiers had, (N,) bool."""
        rows, there = self.store.read(ids)
        self.leave(rows)
        self.store.erase(ids)
        return there

    def change(self, ids: torch.Tensor, index: torch.ScriptObject) -> None:
        """Ids whose rows were written or erased here, not on the device; index: counts the table's versions."""
        if len(ids) and index.recorded_from() > 0:
            self._changed.append((index.next_version(), ids))

    def changed_since(self, version: int) -> list[torch.Tensor]:
        return [ids for at, ids in self._changed if at >= version]

    def forget_changes(self, before: int) -> None:
        self._changed = [(at, ids) for at, ids in self._changed if at >= before]

    def snapshot(self, device_ids: torch.Tensor) -> TierSnapshot:
        """The rows that are not on the device, as they are now; device_ids (N,) are there."""
        made = TierSnapshot(self.count, device_ids, self.scan, self._end)
        with self._ending:
            self.snapshots = [*self.snapshots, made]
        return made

    def _end(self, ended: TierSnapshot) -> None:
        with self._ending:
            self.snapshots = [one for one in self.snapshots if one is not ended]


def _disk(config: TableConfig, cache: CacheConfig) -> DiskStore | None:
    if cache.folder is None:
        return None
    return DiskStore(
        cache.folder, config, slab_bytes=cache.slab_bytes, io_threads=cache.io_threads, index_rows=cache.index_rows
    )


def _tiers(config: TableConfig, cache: CacheConfig, disk: DiskStore | None) -> RowStore:
    if disk is not None and cache.host_rows == 0:
        return disk
    host = MemoryStore(config)
    if disk is None:
        return host
    return TieredStore(host, disk, cache.host_rows if cache.host_rows is not None else 1 << 62)


def without(rows: RowBatch, ids: torch.Tensor) -> RowBatch:
    """Rows whose ids are not among `ids`, which ascend."""
    if not len(ids):
        return rows
    at = torch.searchsorted(ids, rows.ids).clamp_(max=len(ids) - 1)
    return rows.select(ids[at] != rows.ids)
