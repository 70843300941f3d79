"""LookAhead: rows of the next batches come to the device, or to host memory, while the current one trains.

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

from torchrec_embcache.counters import Tally
from torchrec_embcache.errors import CacheTooSmall, StoreIOError
from torchrec_embcache.native import IdCounts, distinct
from torchrec_embcache.notice import ShortenedNotice
from torchrec_embcache.prefetch_batch import Plan
from torchrec_embcache.store.base import RowStore


class Holder:
    """Who wants nothing to be fetched."""


class LookAhead:
    """The batches between submission and release, and the thread that fetches their rows.

    Args:
        name: of the table, for messages.
        rows: that the device holds.
        on_device: which of ids (N,) are there, (N,) bool; any thread.
        store: the tiers below.
        place: of fetched rows, puts on the device what can be put there now, and returns the rest; it asks before each
            part, with the gate held, whether the rows are still those of the store.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        on_device: Callable[[torch.Tensor], torch.Tensor],
        store: RowStore,
        metrics: Tally,
        place: Callable[[RowBatch, Callable[[], bool]], RowBatch],
    ) -> None:
        self._name = name
        self._rows = rows
        self._on_device = on_device
        self._store = store
        self._place = place
        self._restarts = 0
        self._metrics = metrics
        self.gate = threading.RLock()  # admission and eviction
        self._changed = threading.Condition(self.gate)
        self._queue: deque[Plan] = deque()  # submitted, not taken
        self._taken: list[Plan] = []  # not released
        self._pinned = IdCounts()
        self._stop = False
        self._holders: WeakSet[Holder] = WeakSet()
        self._waiting = 0  # for the fetch under way to end; no other begins
        self._notice = ShortenedNotice(name, rows)
        self._crash: Exception | None = None
        self._busy: Plan | None = None  # being fetched
        self._thread: threading.Thread | None = None

    def submit(self, ids: torch.Tensor) -> None:
        """The next batch: ids (L,) int64 on the CPU, in the order in which assign will get them."""
        with self._changed:
            self._check_open()
            self._queue.append(Plan(ids))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"prefetch of {self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take(self, ids: torch.Tensor) -> Plan:
        """The plan of the batch that is to be looked up now; if it was not submitted, it is made now. Waits for it."""
        with self._changed:
            self._check_open()
            for read in [plan for plan in self._taken if plan.only_read]:
                self._forget(read)
            self._holders.clear()
            self._changed.notify_all()
            plan = self._queue[0] if self._queue else None
            if plan is None or not plan.is_of(ids):
                return self._take_now(ids)
            late = not plan.ready
            start = time.perf_counter()
            while not plan.ready:
                self._check_room(plan)
                self._changed.wait()
                self._check_open()
                if self._crash is not None:
                    raise self._crash
            self._queue.popleft()
            self._taken.append(plan)
            self._metrics.add(late_batches=late, prefetch_wait_seconds=time.perf_counter() - start if late else 0.0)
        if plan.failure is not None:
            self.release(plan)
            raise plan.failure
        self._notice.give(stacklevel=3)
        return plan

    def finish(self) -> None:
        """The updates of all batches taken so far are made; the next one's rows may evict theirs."""
        with self._changed:
            for plan in self._taken:
                self._pinned.remove(plan.ids)
            self._taken.clear()
            self._changed.notify_all()

    def release(self, plan: Plan) -> None:
        """A batch that has failed: those behind it, which counted on its rows, are fetched again; see restart()."""
        with self._changed:
            self._forget(plan)
            self.restart()

    def pinned_ids(self) -> torch.Tensor:
        """Ids that must stay, with repetitions; hold `gate`."""
        plans = [plan.ids for plan in (*self._taken, *self._queue) if plan.admitted]
        return torch.cat(plans) if plans else torch.empty(0, dtype=torch.int64)

    def restart(self) -> None:
        """The store was changed from outside: batches that wait are fetched again. The table's lock must be free."""
        with self._changed:
            self._restarts += 1
            with self._idle():
                while self._revoke_last():
                    pass

    def hold(self) -> Holder:
        """Nothing is fetched until go_on gets the holder, or nobody has it any more: a reader that is given up needs no
        lock to end. Or until a batch is taken. The table's lock must be free.
        """
        holder = Holder()
        with self._changed, self._idle():
            self._holders.add(holder)
        return holder

    def go_on(self, holder: Holder) -> None:
        with self._changed:
            self._holders.discard(holder)
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

    def _take_now(self, ids: torch.Tensor) -> Plan:
        plan = Plan(ids, ids=distinct(ids))
        start = time.perf_counter()
        if not self._fits(plan):
            with self._idle():
                while not self._fits(plan) and self._revoke_last():
                    pass
        if not self._fits(plan):
            raise self._too_small(plan)
        missing = self._admit(plan, known=False)
        self._taken.append(plan)
        try:
            plan.staged, _ = self._store.read(missing)
        except Exception:
            self._forget(plan)
            raise
        self._metrics.add(prefetch_wait_seconds=time.perf_counter() - start, late_batches=1)
        self._changed.notify_all()
        return plan

    def _admit(self, plan: Plan, *, known: bool) -> torch.Tensor:
        """Pins the ids; returns those to fetch. known: rows of earlier batches count as being on the device."""
        there = self._on_device(plan.ids)
        if known:
            there |= self._pinned.contains(plan.ids)
        self._pinned.add(plan.ids)
        plan.admitted = True
        missing = plan.ids[~there]
        self._metrics.add(batches=1, lookups=len(plan.ids), hits=len(plan.ids) - len(missing))
        return missing

    def _fits(self, plan: Plan) -> bool:
        fresh = len(plan.ids) - int(self._pinned.contains(plan.ids).sum())
        return len(self._pinned) + fresh <= self._rows

    def _forget(self, plan: Plan) -> None:
        self._taken.remove(plan)
        self._pinned.remove(plan.ids)
        self._changed.notify_all()

    def _revoke_last(self) -> bool:
        """Makes the last admitted batch wait again, which is not being fetched; False if there is none."""
        for plan in reversed(self._queue):
            if plan.admitted:
                plan.admitted, plan.staged, plan.failure = False, None, None
                self._pinned.remove(plan.ids)
                return True
        return False

    def _check_room(self, plan: Plan) -> None:
        """Raises if `plan`, the first of the queue, waits for room that nobody will make."""
        if not plan.admitted and len(plan.ids) and not self._fits(plan):
            raise self._too_small(plan)

    def _too_small(self, plan: Plan) -> CacheTooSmall:
        pinned = 0 if len(plan.ids) > self._rows else len(self._pinned)
        return CacheTooSmall.of_batch(self._name, self._rows, len(plan.ids), pinned, len(self._taken))

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
                plan = self._next()
                assert plan is not None
                self._busy = plan
            try:
                self._fetch(plan)
            except Exception as error:  # for the training thread
                plan.failure = error
            with self._changed:
                self._busy = None
                self._changed.notify_all()

    def _next(self) -> Plan | None:
        """The first batch that is not admitted, if it fits."""
        if self._holders or self._waiting:
            return None
        for plan in self._queue:
            if plan.admitted:
                continue
            if not len(plan.ids) or self._fits(plan):
                return plan
            self._tell_shortened(plan)
            return None
        return None

    def _fetch(self, plan: Plan) -> None:
        if not len(plan.ids):
            ids = distinct(plan.submitted)
            with self._changed:
                plan.ids = ids
                if not self._fits(plan):  # comes again when there is room
                    return
        with self._changed:
            if plan.admitted or plan not in self._queue:
                return
            missing = self._admit(plan, known=True)
            restarts = self._restarts
        rows, _ = self._store.read(missing)
        plan.staged = self._place(rows, lambda: self._restarts == restarts)

    def _tell_shortened(self, plan: Plan) -> None:
        if plan.waited_for_room or len(plan.ids) > self._rows:
            return
        plan.waited_for_room = True
        self._metrics.add(shortened=1)
        self._notice.note(ahead=sum(plan.admitted for plan in self._queue), ids=len(plan.ids), pinned=len(self._pinned))
