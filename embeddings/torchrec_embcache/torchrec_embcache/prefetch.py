"""Prefetcher: rows of the next batches come to the device, or to host memory, while the current one trains.

A batch goes through: submitted -> admitted (its ids are pinned: none of them is evicted from now on; those that are
neither on the device nor pinned by an earlier batch are to be fetched) -> ready (they are fetched, and on the device
where `place` puts them there) -> taken (by the training thread, which puts the rest there) -> released (after its
update).

Why results are those of a table that is all on the device (as in Bagpipe, SOSP '23): an id is fetched only when it is
neither on the device nor about to be, so its row is in the store, and stays as it is until it is placed; from then
on it is on the device, and no eviction may choose it as long as a batch that is admitted and not released needs
it. Admission and eviction exclude each other by `gate`, and batches are taken in the order in which they came. Who
needs the gate and the table's lock takes the gate first.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.background import background_thread
from torchrec_embcache.counters import SharedCounters
from torchrec_embcache.errors import CacheTooSmall, StoreIOError
from torchrec_embcache.native import IdCounts, distinct
from torchrec_embcache.notice import ShortenedNotice
from torchrec_embcache.prefetch_batch import PrefetchBatch
from torchrec_embcache.store.base import RowStore


class FetchPause:
    """While somebody has it, nothing is fetched."""


class Prefetcher:
    """The batches between submission and release, and the thread that fetches their rows.

    Args:
        name: of the table, for messages.
        rows: that the device holds.
        find: slots of ids (N,) on the device, -1 where absent, (N,) int64; any thread. A row of an id that is pinned
            stays in its slot until restart().
        store: the tiers below.
        place: of fetched rows, puts on the device what can be put there now, and returns the rest; it asks before each
            part, with the gate held, whether the rows are still those of the store.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        find: Callable[[torch.Tensor], torch.Tensor],
        store: RowStore,
        metrics: SharedCounters,
        place: Callable[[list[RowBatch], Callable[[], bool]], RowBatch],
    ) -> None:
        self._name = name
        self._rows = rows
        self._find = find
        self._store = store
        self._place = place
        self._restarts = 0
        self.releases = 0  # moments from which on rows of batches that were taken may go
        self._metrics = metrics
        self.gate = threading.RLock()  # admission and eviction
        self._changed = threading.Condition(self.gate)
        self._queue: deque[PrefetchBatch] = deque()  # submitted, not taken
        self._taken: list[PrefetchBatch] = []  # not released
        self._pinned = IdCounts()
        self._stop = False
        self._pauses: WeakSet[FetchPause] = WeakSet()
        self._waiting = 0  # for the fetch under way to end; no other begins
        self._notice = ShortenedNotice(name, rows)
        self._crash: Exception | None = None
        self._busy: PrefetchBatch | None = None  # being fetched
        self._thread: threading.Thread | None = None

    def submit(self, ids: torch.Tensor) -> None:
        """The next batch: ids (L,) int64 on the CPU, in the order in which assign will get them."""
        with self._changed:
            self._check_open()
            self._queue.append(PrefetchBatch(ids))
            if self._thread is None:
                self._thread = background_thread(self._run, f"prefetch of {self._name}")
                self._thread.start()
            self._changed.notify_all()

    def take(self, ids: torch.Tensor) -> PrefetchBatch:
        """The batch that is to be looked up now; if it was not submitted, it is made now. Waits for it."""
        with self._changed:
            self._check_open()
            for read in [batch for batch in self._taken if batch.only_read]:
                self._forget(read)
            self._pauses.clear()
            self._changed.notify_all()
            batch = self._queue[0] if self._queue else None
            if batch is None or not batch.is_of(ids):
                return self._take_now(ids)
            late = not batch.ready
            start = time.perf_counter()
            while not batch.ready:
                self._check_room(batch)
                self._changed.wait()
                self._check_open()
                if self._crash is not None:
                    raise self._crash
            self._queue.popleft()
            self._taken.append(batch)
            self._metrics.add(late_batches=late, prefetch_wait_seconds=time.perf_counter() - start if late else 0.0)
        if batch.failure is not None:
            self.release(batch)
            raise batch.failure
        self._notice.give(stacklevel=3)
        return batch

    def finish(self) -> None:
        """The updates of all batches taken so far are made; the next one's rows may evict theirs."""
        with self._changed:
            self.releases += 1
            for batch in self._taken:
                self._pinned.remove(batch.ids)
            self._taken.clear()
            self._changed.notify_all()

    def release(self, batch: PrefetchBatch) -> None:
        """A batch that has failed: those behind it, which counted on its rows, are fetched again; see restart()."""
        with self._changed:
            self._forget(batch)
            self.restart()

    def pinned_slots(self) -> torch.Tensor:
        """Slots on the device whose rows must stay, with repetitions and negative ones; hold `gate`."""
        slots = [torch.empty(0, dtype=torch.int64)]
        for batch in (*self._taken, *self._queue):
            if batch.admitted:
                batch.find(self._find)
                slots.append(batch.slots)
        return torch.cat(slots)

    def restart(self) -> None:
        """The store was changed from outside: batches that wait are fetched again. The table's lock must be free."""
        with self._changed:
            self._restarts += 1
            self.releases += 1
            for batch in (*self._taken, *self._queue):
                batch.forget_slots()
            with self._idle():
                while self._revoke_last():
                    pass

    def pause(self) -> FetchPause:
        """Nothing is fetched until resume gets the pause, nobody has it any more, or a batch is taken.

        So a reader that is given up needs no lock to end. The table's lock must be free.
        """
        pause = FetchPause()
        with self._changed, self._idle():
            self._pauses.add(pause)
        return pause

    def resume(self, pause: FetchPause) -> None:
        with self._changed:
            self._pauses.discard(pause)
            self._changed.notify_all()

    def drop(self) -> None:
        """Forgets all batches that were not taken."""
        with self._changed, self._idle():
            while self._revoke_last():
                pass
            self._queue.clear()

    def close(self) -> None:
        """Whoever waits for a batch, or comes with another one, is told by an error."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # With the gate held.

    def _check_open(self) -> None:
        if self._stop:
            raise StoreIOError(f"table '{self._name}' is closed; make it again to go on")

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Nothing is being fetched within it; lets go of the gate until that is so. The table's lock must be free."""
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._busy is None)
            yield
        finally:
            self._waiting -= 1
            self._changed.notify_all()

    def _take_now(self, ids: torch.Tensor) -> PrefetchBatch:
        batch = PrefetchBatch(ids, ids=distinct(ids))
        start = time.perf_counter()
        if not self._fits(batch):
            with self._idle():
                while not self._fits(batch) and self._revoke_last():
                    pass
        if not self._fits(batch):
            raise self._too_small(batch)
        missing = self._admit(batch, known=False)
        self._taken.append(batch)
        try:
            batch.staged = RowBatch.concat(self._store.fetch(missing))
        except Exception:
            self._forget(batch)
            raise
        self._metrics.add(prefetch_wait_seconds=time.perf_counter() - start, late_batches=1)
        self._changed.notify_all()
        return batch

    def _admit(self, batch: PrefetchBatch, *, known: bool) -> torch.Tensor:
        """Pins the ids; returns those to fetch. known: rows of earlier batches count as being on the device."""
        batch.find(self._find)
        missing = batch.ids[batch.absent]
        if known:
            missing = missing[~self._pinned.contains(missing)]
        self._pinned.add(batch.ids)
        batch.admitted = True
        self._metrics.add(batches=1, lookups=len(batch.ids), hits=len(batch.ids) - len(missing))
        return missing

    def _fits(self, batch: PrefetchBatch) -> bool:
        if len(self._pinned) + len(batch.ids) <= self._rows:  # also if none of them is pinned yet
            return True
        fresh = len(batch.ids) - int(self._pinned.contains(batch.ids).sum())
        return len(self._pinned) + fresh <= self._rows

    def _forget(self, batch: PrefetchBatch) -> None:
        self.releases += 1
        self._taken.remove(batch)
        self._pinned.remove(batch.ids)
        self._changed.notify_all()

    def _revoke_last(self) -> bool:
        """Makes the last admitted batch wait again, which is not being fetched; False if there is none."""
        for batch in reversed(self._queue):
            if batch.admitted:
                batch.admitted, batch.staged, batch.failure = False, None, None
                batch.forget_slots()
                self._pinned.remove(batch.ids)
                return True
        return False

    def _check_room(self, batch: PrefetchBatch) -> None:
        """Raises if `batch`, the first of the queue, waits for room that nobody will make."""
        if not batch.admitted and len(batch.ids) and not self._fits(batch):
            raise self._too_small(batch)

    def _too_small(self, batch: PrefetchBatch) -> CacheTooSmall:
        pinned = 0 if len(batch.ids) > self._rows else len(self._pinned)
        return CacheTooSmall.of_batch(self._name, self._rows, len(batch.ids), pinned, len(self._taken))

    # The thread.

    def _run(self) -> None:
        try:
            self._fetch_all()
        except Exception as error:  # whoever waits is told
            with self._changed:
                self._crash, self._busy = error, None
                self._changed.notify_all()

    def _fetch_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or self._next() is not None)
                if self._stop:
                    return
                batch = self._next()
                assert batch is not None
                self._busy = batch
            try:
                self._fetch(batch)
            except Exception as error:  # for the training thread
                batch.failure = error
            with self._changed:
                self._busy = None
                self._changed.notify_all()

    def _next(self) -> PrefetchBatch | None:
        """The first batch that is not admitted, if it fits."""
        if self._pauses or self._waiting:
            return None
        for batch in self._queue:
            if batch.admitted:
                continue
            if not len(batch.ids) or self._fits(batch):
                return batch
            self._tell_shortened(batch)
            return None
        return None

    def _fetch(self, batch: PrefetchBatch) -> None:
        if not len(batch.ids):
            ids = distinct(batch.submitted)
            with self._changed:
                batch.ids = ids
                if not self._fits(batch):  # comes again when there is room
                    return
        with self._changed:
            if batch.admitted or batch not in self._queue:
                return
            missing = self._admit(batch, known=True)
            restarts = self._restarts
        batch.staged = self._place(self._store.fetch(missing), lambda: self._restarts == restarts)

    def _tell_shortened(self, batch: PrefetchBatch) -> None:
        if batch.waited_for_room or len(batch.ids) > self._rows:
            return
        batch.waited_for_room = True
        self._metrics.add(shortened=1)
        self._notice.note(
            ahead=sum(batch.admitted for batch in self._queue), ids=len(batch.ids), pinned=len(self._pinned)
        )
