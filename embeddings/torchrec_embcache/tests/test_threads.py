"""What the threads of a cached table do to each other: failures, cancellations and closing while they are at work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.table import RowBatch, TableConfig
from rows import rows_of
from streams import assert_same, train, whole
from torchrec_embcache import CacheConfig, CachedTable, DiskStore, StoreError, StoreIOError
from torchrec_embcache.prefetch import Prefetcher
from torchrec_embcache.store.memory import MemoryStore
from torchrec_embcache.store.write_behind import WriteBehind

CONFIG = TableConfig(name="item", dim=4)
PATIENCE = 30.0  # seconds; only a test that fails waits as long


class Gated:
    """A store whose reads wait for `open`, and whose calls fail while `fails` is set."""

    def __init__(self, store: object) -> None:
        self.store = store
        self.open = threading.Event()
        self.open.set()
        self.reading = threading.Event()
        self.fails = False

    def __len__(self) -> int:
        return len(self.store)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        self.reading.set()
        assert self.open.wait(PATIENCE)
        self._check()
        return self.store.read(ids)  # type: ignore[attr-defined, no-any-return]

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        return [self.read(ids)[0]]

    def write(self, rows: RowBatch) -> None:
        self._check()
        self.store.write(rows)  # type: ignore[attr-defined]

    def _check(self) -> None:
        if self.fails:
            raise StoreIOError("the disk is on fire")


def trained(folder: Path | None = None, host_rows: int = 0) -> tuple[CachedTable, Gated]:
    """A table of ids [0, 400), 100 of them on the device, and the tier below it."""
    cache = CacheConfig(
        cache_rows=100, evict_share=0.0, folder=folder, host_rows=host_rows if folder else None, slab_bytes=4096
    )
    table = CachedTable(CONFIG, cache)
    train(table, list(torch.arange(400).split(50)))
    table._tiers.store.drain()
    below = Gated(table._tiers.store._store)
    table._tiers.store._store = below  # type: ignore[assignment]
    return table, below


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def beside(body: Callable[[], None]) -> Iterator[None]:
    """Runs body again and again on a thread of its own; what it raises is raised here at the end."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                body()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def test_a_batch_that_failed_does_not_cost_the_next_one_its_rows() -> None:
    """The second counted on the first to bring the rows that both need."""
    table, below = trained()
    expected = whole(table)
    below.fails = True
    table.prefetch(torch.arange(0, 30))
    wait_for(lambda: table._prefetcher._queue[0].ready)
    below.fails = False
    table.prefetch(torch.arange(20, 50))
    wait_for(lambda: table._prefetcher._queue[1].ready)
    with pytest.raises(StoreError, match="on fire"):
        table.assign(torch.arange(0, 30), train=True)
    slots = table.assign(torch.arange(20, 50), train=False)
    assert torch.equal(table.lookup(slots), expected.weights[20:50])
    assert len(table) == len(expected)
    assert_same(whole(table), expected)
    table.close()


def waking_late(ahead: Prefetcher) -> Callable[[float | None], bool]:
    """A wait() whose caller is slow to go on, so that the prefetch thread does all that it may before."""
    wait = ahead._changed.wait

    def late(timeout: float | None = None) -> bool:
        woken = wait(timeout)
        if threading.current_thread() is not ahead._thread:
            wait(0.05)
        return woken

    return late


def test_nothing_stays_pinned_of_batches_that_are_cancelled_while_they_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, below = trained()
    below.open.clear()
    below.reading.clear()
    table.prefetch(torch.arange(0, 10))
    table.prefetch(torch.arange(40, 50))
    assert below.reading.wait(PATIENCE)
    monkeypatch.setattr(table._prefetcher._changed, "wait", waking_late(table._prefetcher))
    threading.Timer(0.05, below.open.set).start()
    table.cancel_prefetch()
    assert len(table._prefetcher._pinned) == 0
    table.assign(torch.arange(100, 200), train=True)  # all of the cache
    table.close()


def test_a_reader_in_a_reader_does_not_let_rows_move() -> None:
    """The inner one ends first."""
    table, _ = trained()
    outer = table.scan(64)
    next(outer)
    assert sum(len(rows) for rows in table.scan(50)) == 400
    table.prefetch(torch.arange(30))
    time.sleep(0.05)
    assert not table._prefetcher._queue[0].ready
    assert sum(len(rows) for rows in outer) == 400 - 64
    wait_for(lambda: table._prefetcher._queue[0].ready)
    table.close()


def test_a_reader_that_is_given_up_waits_for_nobody() -> None:
    """The collector may end it on any thread, with any lock held: a save that failed leaves one in its traceback."""
    table, _ = trained()
    reader = table.scan(64)
    next(reader)
    ended, held, in_time = threading.Event(), threading.Event(), []

    def fetch() -> None:
        with table._prefetcher.gate:
            held.set()
            in_time.append(ended.wait(2.0))

    fetching = threading.Thread(target=fetch, daemon=True)
    fetching.start()
    assert held.wait(PATIENCE)
    del reader
    ended.set()
    fetching.join(PATIENCE)
    assert in_time == [True]
    table.prefetch(torch.arange(30))
    wait_for(lambda: table._prefetcher._queue[0].ready)
    table.close()


def test_a_closed_table_says_so(folder: Path) -> None:
    """Instead of waiting for threads that are gone; closing it again does nothing."""
    for where in (None, folder):
        table, _ = trained(folder=where)
        table.close()
        table.close()
        with pytest.raises(StoreIOError, match="'item' is closed"):
            table.prefetch(torch.arange(3))
        with pytest.raises(StoreIOError, match="'item' is closed"):
            table.assign(torch.arange(3), train=True)
        with pytest.raises(StoreIOError, match="closed"):
            table.write(rows_of(CONFIG, [1000], 1))
    again = CachedTable(CONFIG, CacheConfig(cache_rows=10, folder=folder))
    assert len(again) == 400
    again.close()


def test_closing_tells_who_waits_for_a_batch() -> None:
    table, below = trained()
    below.open.clear()
    table.prefetch(torch.arange(30))
    failures = []

    def take() -> None:
        with pytest.raises(StoreIOError, match="'item' is closed") as failure:
            table.assign(torch.arange(30), train=True)
        failures.append(failure)

    training = threading.Thread(target=take, daemon=True)
    training.start()
    wait_for(lambda: below.reading.is_set() and len(table._prefetcher._changed._waiters) == 1)  # type: ignore[attr-defined]
    closing = threading.Thread(target=table.close, daemon=True)
    closing.start()
    wait_for(lambda: table._prefetcher._stop)
    training.join(0.2)
    below.open.set()
    training.join(PATIENCE)
    closing.join(PATIENCE)
    assert len(failures) == 1 and not closing.is_alive()


def test_a_table_that_cannot_be_written_closes_all_the_same(folder: Path) -> None:
    table, below = trained(folder=folder)
    below.fails = True
    with pytest.raises(StoreIOError, match="on fire"):
        table.close()
    table.close()
    assert not [thread for thread in threading.enumerate() if thread.name.endswith(" of item")]
    DiskStore(folder, CONFIG).close()  # it is not locked any more


def test_rows_behind_a_failed_close_are_not_forgotten_in_silence() -> None:
    below = Gated(MemoryStore(CONFIG))
    store = WriteBehind(below, limit=100, name="item")  # type: ignore[arg-type]
    below.fails = True
    store.write(rows_of(CONFIG, [1, 2], 1))
    with pytest.raises(StoreIOError, match="on fire"):
        store.close()
    for use in (store.flush, lambda: store.write(rows_of(CONFIG, [3], 1)), lambda: len(store)):
        with pytest.raises(StoreIOError, match="'item' is closed.*2 rows could not be written"):
            use()


def test_a_store_is_closed_behind_its_readers(folder: Path) -> None:
    """Or they would read memory that is gone."""
    ids = torch.arange(4000)
    for _ in range(10):
        store = DiskStore(folder, CONFIG, io_threads=2)
        store.write(rows_of(CONFIG, ids.tolist(), 1))

        def read(store: DiskStore = store) -> None:
            try:
                while bool(store.read(ids)[1].all()) and sum(len(rows) for rows in store.scan(500)) >= len(ids):
                    pass
            except StoreIOError as error:
                assert "closed" in str(error)

        readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for reader in readers:
            reader.start()
        time.sleep(0.02)
        store.close()
        for reader in readers:
            reader.join(PATIENCE)
            assert not reader.is_alive()


def test_sizes_wait_for_a_change_that_is_under_way() -> None:
    """The map of ids is not to be measured while it grows."""
    table, _ = trained()
    measured: list[int] = []
    for size in (table.bytes, lambda: len(table), lambda: len(table.ids())):
        with table.exclusive():
            reader = threading.Thread(target=lambda size=size: measured.append(size()), daemon=True)  # type: ignore[misc]
            reader.start()
            reader.join(0.05)
            assert reader.is_alive()
        reader.join(PATIENCE)
    assert measured[0] > 0 and measured[1:] == [400, 400]
    table.close()


class SlowList(list[object]):
    """Whoever walks over it on another thread than the test's is overtaken by who does not wait for it."""

    def __iter__(self) -> Iterator[object]:
        if threading.current_thread() is not threading.main_thread():
            self.walking.set()
            self.overtaken.wait(0.2)
        return super().__iter__()

    def __init__(self, *of: object) -> None:
        super().__init__(of)
        self.walking = threading.Event()
        self.overtaken = threading.Event()


def test_a_snapshot_that_ends_leaves_one_that_begins() -> None:
    """Saving threads end theirs while training goes on."""
    table, _ = trained()
    ended = table.snapshot_lower_tiers()
    table._tiers.snapshots = slow = SlowList(ended)  # type: ignore[assignment]
    saving = threading.Thread(target=ended.release, daemon=True)
    saving.start()
    assert slow.walking.wait(PATIENCE)
    begun = table.snapshot_lower_tiers()
    slow.overtaken.set()
    saving.join(PATIENCE)
    assert table._tiers.snapshots == [begun]
    table.close()


def test_others_look_while_the_table_trains(folder: Path) -> None:
    """Every row is there at any moment, once, and as some batch has left it."""
    ids = torch.arange(400)
    table, _ = trained(folder, host_rows=100)

    def look() -> None:
        assert len(table) == 400 and torch.equal(table.ids().sort().values, ids)
        rows, found = table.read(ids)
        assert bool(found.all()) and torch.equal(rows.ids, ids)
        rows, gone, _ = table.changed_since(0)
        assert torch.equal(rows.ids.sort().values, ids) and not len(gone)
        assert table.bytes() > 0 and 0 < table.occupancy <= 1 and table.waiting_rows >= 0
        table.flush()

    batches = [ids[torch.randperm(400, generator=torch.Generator().manual_seed(k))[:30]] for k in range(80)]
    with switching_often(), beside(look), beside(look):
        train(table, batches, ahead=2)
    expected, _ = trained()
    train(expected, batches)
    assert_same(whole(table), whole(expected))  # flushes have ended, which scan asks for
    table.close()
    expected.close()
