"""CachedTable: a hash table whose rows are on the device only while they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import torch
from hybrid_torchrec.backends.choice import choose
from hybrid_torchrec.backends.ids import HostIndex
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

from torchrec_embcache.config import CacheConfig
from torchrec_embcache.counters import SharedCounters
from torchrec_embcache.errors import CacheTooSmall
from torchrec_embcache.lower_tiers import LowerTiers, without
from torchrec_embcache.prefetch import Prefetcher
from torchrec_embcache.store.base import RowLayout
from torchrec_embcache.store.raw import StoreStats
from torchrec_embcache.tier_snapshot import TierSnapshot

NONE = torch.empty(0, dtype=torch.int64)
PLACED_AT_ONCE = 8192  # rows; training may wait for as long
# Most ids of a power law come once and not again for long: by age alone an eighth more rows would have to come back.
STEPS_PER_DOUBLING = 40  # that a row stays longer where it was seen twice as often


class CachedTable(HashTable):
    """HashTable with ``cache.cache_rows`` rows in device memory, over host memory, over disk.

    Training gives the same bits as with the whole table on the device. Slots, ``find``, ``weights`` and ``state`` are
    about the rows on the device, everything else about the whole table.

    Rows of a batch stay on the device, in their slots, from ``prefetch`` until the batch's update (``apply_gradients``)
    is made; those of assign(train=False) until the next assign. Slots of ``find`` may be another id's at any time.
    """

    resident = False

    def __init__(self, config: TableConfig, cache: CacheConfig, device: torch.device | str = "cpu") -> None:
        cache.check(config)
        first = min(config.initial_capacity, cache.cache_rows)
        on_device = replace(config, max_rows=cache.cache_rows, initial_capacity=first)
        # Ids on the CPU whatever the device: which rows come and go is decided there, batches ahead.
        super().__init__(on_device, device, backend=choose(on_device, torch.device(device), host_ids=True))
        self.cache = cache
        self.metrics = SharedCounters()
        self._row_bytes = RowLayout.of(config).row_bytes
        self._tiers = LowerTiers(config, cache)
        self._prefetcher = Prefetcher(
            config.name,
            cache.cache_rows,
            self.index.find,
            self._tiers.store,
            self.metrics,
            self._place,
        )

    def __len__(self) -> int:
        """Rows of the whole table."""
        with self.lock:  # or rows on their way would be counted twice, or not at all
            return self.device_rows + self._tiers.count

    def __repr__(self) -> str:
        config, cache = self.config, self.cache
        dtype = str(config.dtype).removeprefix("torch.")
        host = "the others" if cache.host_rows is None else f"at most {cache.host_rows}"
        disk = "no disk" if cache.folder is None else f"disk {cache.folder}"
        return (
            f"CachedTable({config.name!r}: {self.device_rows + self._tiers.count} rows, {self.device_rows} of at most "
            f"{cache.cache_rows} on {self.device}, {host} in host memory, {disk}; {config.dim} x {dtype}, "
            f"{config.optimizer.kind} lr={self.learning_rate:g}, {config.initializer}, {config.admission})"
        )

    @property
    def device_rows(self) -> int:
        return len(self.backend.ids)

    @property
    def occupancy(self) -> float:
        return self.device_rows / self.cache.cache_rows

    @property
    def moves(self) -> int:
        return self._prefetcher.releases  # rows of a batch stay until then, whatever is evicted

    def bytes(self) -> int:
        """Memory of the rows on the device and of their ids on the CPU, in use."""
        with self.lock:
            return (self.device_rows + 1) * self.row_bytes + int(self.index.bytes())

    def device_ids(self) -> torch.Tensor:
        """Ids of the rows on the device, (N,) int64 on the CPU."""
        return super().ids()

    def ids(self) -> torch.Tensor:
        """Ids of all rows, (N,) int64 on the CPU; reads the tiers below."""
        with self.exclusive():
            near = self.device_ids()
            ascending = near.sort().values
            return torch.cat([near, *(without(rows, ascending).ids for rows in self._tiers.scan(65536))])

    # Training.

    def prefetch(self, ids: torch.Tensor) -> None:
        """Ids (L,) of a later batch; assign must get the batches in the order in which they were prefetched."""
        self._prefetcher.submit(self.check_ids(ids))

    def cancel_prefetch(self) -> None:
        """Forgets the prefetched batches that were not assigned."""
        self._prefetcher.drop()

    def assign(self, ids: torch.Tensor, *, train: bool) -> torch.Tensor:
        """HashTable.assign; waits for the rows. Raises CacheTooSmall if the batch does not fit, and StoreError."""
        ids = self.check_ids(ids)
        self._tiers.store.check()  # before anything is changed, so that the call can be repeated
        batch = self._prefetcher.take(ids)
        staged = batch.staged
        try:
            assert staged is not None
            with self._prefetcher.gate, self.lock:
                self._bring(staged)
                slots = super().assign(ids, train=train)
        except Exception:
            self._prefetcher.release(batch)
            raise
        batch.staged = None
        batch.only_read = not train
        return slots

    def update(self, slots: torch.Tensor, grads: torch.Tensor, *, apply: bool = True, **bags: Any) -> None:
        super().update(slots, grads, apply=False, **bags)
        if apply:
            self.apply_gradients()

    def apply_gradients(self) -> None:
        super().apply_gradients()
        self._prefetcher.finish()  # without the table's lock, see prefetch.py

    # The whole table.

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        ids = self.check_ids(ids)
        with self._prefetcher.gate:  # no eviction between the two
            near, found = super().read(ids)
            if bool(found.all()):
                return near, found
            far, there = self._tiers.read(ids[~found])
        absent = (~found).nonzero().squeeze(1)
        positions = torch.cat([found.nonzero().squeeze(1), absent[there]])
        found = found.clone()
        found[positions] = True
        order = torch.argsort(positions).to(self.device)
        return RowBatch.concat([near, far.to(self.device)]).select(order), found

    def write(self, rows: RowBatch) -> None:
        """Overwrites rows where they are; new ones go to the tier below."""
        self.check_rows(rows)
        ids = self.check_ids(rows.ids)
        with self._prefetcher.gate:
            with self.lock:
                here = super().find(ids).cpu() >= 0
                if bool(here.any()):
                    super().write(rows.select(here.to(rows.ids.device)))
                if not bool(here.all()):
                    below = rows.select((~here).to(rows.ids.device)).to("cpu")
                    self._tiers.overwrite(below)
                    self._tiers.change(below.ids, self.index)
            self._prefetcher.restart()

    def erase(self, ids: torch.Tensor) -> int:
        ids = self.check_ids(ids).unique()
        with self._prefetcher.gate:
            with self.lock:
                here = super().find(ids).cpu() >= 0
                super().erase(ids)
                there = self._tiers.erase(ids)
                away = ids[there & ~here]
                self._tiers.count -= len(away)
                self._tiers.change(away, self.index)
            self._prefetcher.restart()
        return int((here | there).sum())

    def add_clicks(self, ids: torch.Tensor, clicks: torch.Tensor) -> None:
        ids = self.check_ids(ids)
        with self._prefetcher.gate:
            super().add_clicks(ids, clicks)
            away = self.index.find(ids) < 0
            distinct, inverse = ids[away].unique(return_inverse=True)
            rows, there = self._tiers.read(distinct)
            if len(rows):
                added = torch.zeros(len(distinct)).index_add_(0, inverse, clicks.detach().cpu()[away].float())
                self.write(replace(rows, clicks=rows.clicks + added[there]))

    def pop(self, ids: torch.Tensor) -> RowBatch:
        with self._prefetcher.gate:
            rows, _ = self.read(ids)
            self.erase(ids)
            return rows

    def changed_since(self, version: int, *, seen_after: int | None = None) -> tuple[RowBatch, torch.Tensor, int]:
        """HashTable.changed_since of the whole table; also gives rows that were fetched and not trained since."""
        with self.exclusive():
            rows, gone, now = super().changed_since(version, seen_after=seen_after)
            gone = torch.cat([gone, *self._tiers.changed_since(version)]).unique()
            evicted, there = self._tiers.read(gone)
            gone = gone[~there & (self.index.find(gone) < 0)]
            parts = self._tiers.scan(65536) if version == 0 else [evicted]
            below = [self._absent(part).to(self.device) for part in parts]
            return RowBatch.concat([rows, *below]), gone, now

    def forget_changes(self, before: int) -> None:
        with self.lock:
            super().forget_changes(before)
            self._tiers.forget_changes(before)

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        """All rows, on the CPU, at most ``chunk`` at a time; prefetching waits, training and flush must not go on.

        For rows that are written meanwhile make the disk store move others, which the scan would then meet again.
        """
        pause = self._prefetcher.pause()
        near = self.device_ids().sort().values
        for rows in self._tiers.scan(chunk):
            yield without(rows, near)
        for ids in near.split(chunk):
            yield self.read(ids)[0].to("cpu")
        self._prefetcher.resume(pause)

    def flush(self) -> None:
        """Makes the disk hold every row, safe from a loss of power."""
        with self.exclusive():  # or a row could be written behind a newer state of it, or move before who reads all
            for ids in self.device_ids().split(65536):
                self._tiers.receive(super().read(ids)[0].to("cpu"))
            self._tiers.store.flush()

    def close(self) -> None:
        """Flushes if there is a disk, and stops the threads. The table cannot be used any more; again does nothing."""
        self._prefetcher.close()
        try:
            if self.cache.folder is not None and not self._tiers.store.closed:
                self.flush()
        finally:
            self._tiers.store.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._prefetcher.gate, self.lock:  # always in this order
            yield

    def snapshot_lower_tiers(self) -> TierSnapshot:
        """The rows that are not on the device, as they are now, to be read by another thread while training goes on."""
        with self.exclusive():
            return self._tiers.snapshot(self.device_ids())

    @property
    def waiting_rows(self) -> int:
        """Rows that left the device and are not in the tier below yet."""
        return self._tiers.store.waiting

    def disk_stats(self) -> StoreStats | None:
        """Rows on disk, and bytes read and written since the table was made; None without a folder. Any thread."""
        return None if self._tiers.disk is None else self._tiers.disk.stats()

    # Internals.

    def _place(self, fetched: list[RowBatch], still: Callable[[], bool]) -> RowBatch:
        """The prefetch thread's: fetched rows to the device, so that the training thread has nothing to copy.

        Only on the CPU; elsewhere the training thread gives the copies to its stream, and does not wait for them.
        Returns the rows that are left.
        """
        if self.device.type != "cpu":
            return RowBatch.concat(fetched)
        with self._prefetcher.gate, self.lock:
            if still():  # room for all at once: to choose victims is to look at all rows
                self._make_what_room_there_is(sum(map(len, fetched)))
        parts = [part for rows in fetched for part in _in_parts(rows)]
        for number, part in enumerate(parts):
            with self._prefetcher.gate, self.lock:
                if not still() or not self._bring(part, wait=False):
                    return RowBatch.concat(parts[number:])
        return fetched[0].select(slice(0, 0))

    def _make_what_room_there_is(self, new: int) -> None:
        with suppress(CacheTooSmall):
            self.make_room(new, NONE)

    def _bring(self, rows: RowBatch, *, wait: bool = True) -> bool:
        """Fetched rows to the device, but for those that other batches brought; hold the gate and the lock.

        False if there is no room for them and wait is False.
        """
        if not len(rows):
            return True
        absent = self.index.find(rows.ids) < 0
        rows = rows if bool(absent.all()) else rows.select(absent)
        self._tiers.leave(rows)
        try:
            super().write(rows)
        except CacheTooSmall:
            if wait:
                raise
            return False
        self._tiers.count -= len(rows)
        self.metrics.add(fetched_rows=len(rows), bytes_to_device=len(rows) * self._row_bytes)
        return True

    def _absent(self, rows: RowBatch) -> RowBatch:
        """Those that are not on the device."""
        return rows.select(self.index.find(rows.ids) < 0)

    def make_room(self, new: int, used: torch.Tensor) -> None:
        """Evicts to the tier below: rows that were trained long ago or seldom, none that the look-ahead needs."""
        needed = self.backend.ids.missing_room(new)
        if needed <= 0:
            return
        with self._prefetcher.gate:
            keep = torch.cat([used, self._prefetcher.pinned_slots(), self.pending_gradients.slots()])
            count = max(needed, int(self.cache.evict_share * self.cache.cache_rows))
            victims = cast(HostIndex, self.index).coldest(count, STEPS_PER_DOUBLING, self.step, keep)
            if len(victims) < needed:
                raise CacheTooSmall(
                    f"table '{self.config.name}': {new} rows are to come, {len(victims)} of {self.device_rows} can go; "
                    f"raise cache_rows={self.cache.cache_rows} or use smaller batches"
                )
            rows = self.rows_at(victims)
            self._tiers.receive(rows.to("cpu"))
            self.evict(rows.ids.cpu())
            self._tiers.count += len(rows)
        self.metrics.add(evicted_rows=len(rows), bytes_from_device=len(rows) * self._row_bytes)

    def expire(self) -> None:
        """No row is forgotten."""


def _in_parts(rows: RowBatch) -> list[RowBatch]:
    """Rows by at most PLACED_AT_ONCE."""
    if len(rows) <= PLACED_AT_ONCE:
        return [rows] if len(rows) else []
    return [rows.select(slice(first, first + PLACED_AT_ONCE)) for first in range(0, len(rows), PLACED_AT_ONCE)]
