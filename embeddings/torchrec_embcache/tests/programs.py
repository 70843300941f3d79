"""What children do (faulty.py), and how the same steps are taken again in the test."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phases
import torch
from faulty import arm, fail_reads
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import HashTable, TableConfig
from rows import rows_of
from streams import gradient, power_law
from torchrec_embcache import CacheConfig, CachedTable, DiskStore, StoreError

torch.set_num_threads(1)  # children are forked
CONFIG = TableConfig(name="item", dim=5, optimizer=OptimizerSpec(kind="rowwise_adagrad", lr=0.1))
SLAB_BYTES = 6000
INDEX_ROWS = (1 << 20, 13)  # all of the index in memory, or files of it all the time
NOBODY = 65534  # the user's number
Send = Callable[[Any], None]


def store_steps(seed: int) -> Iterator[tuple[str, list[int]]]:
    """Writes, erasures and flushes without end."""
    draw = random.Random(seed)
    while True:
        ids = draw.sample(range(150), draw.randrange(1, 60))
        yield draw.choices(("write", "erase", "flush"), (8, 2, 1))[0], ids


def change_store(send: Send, folder: Path, seed: int, calls: int, percent: int) -> None:
    """Sends the number of each step that has ended."""
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2, index_rows=INDEX_ROWS[seed % 2])
    arm(folder, calls, percent=percent)
    for step, (kind, ids) in enumerate(store_steps(seed)):
        if kind == "write":
            store.write(rows_of(CONFIG, ids, step))
        elif kind == "erase":
            store.erase(torch.tensor(ids))
        elif step % 4:
            store.flush()
        else:
            store._raw.flush(snapshot=True)
        send(step)


def fill_store(send: Send, folder: Path, calls: int, error: int, index_rows: int) -> None:
    """Writes until it fails, sends the error, makes the disk whole, writes the same again, and reads everything."""
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2, index_rows=index_rows)
    arm(folder, calls, error=error, percent=40)
    for step in range(1000):
        ids = list(range(step * 20, step * 20 + 20))
        try:
            store.write(rows_of(CONFIG, ids, 1))
            store._raw.flush(snapshot=step % 3 == 2)
        except StoreError as failure:
            send((type(failure).__name__, str(failure)))
            before, found = store.read(torch.arange(step * 20))
            assert bool(found.all()) and bool((before.last_step == 1).all())
            arm(folder, 0)
            store.write(rows_of(CONFIG, ids, 1))
            store._raw.flush(snapshot=True)
            rows, found = store.read(torch.arange(step * 20 + 20))
            send((step, bool(found.all())))
            store.close()
            return


def read_badly(send: Send, folder: Path) -> None:
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)
    send(fail_reads(folder))
    try:
        store.read(torch.arange(20))
    except StoreError as failure:
        send((type(failure).__name__, str(failure)))


def read_what_was_cut(send: Send, folder: Path) -> None:
    """Files that get shorter while they are mapped: those of a store, and one of the program's own."""
    store = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)
    store.write(rows_of(CONFIG, list(range(20)), 1))
    for slab in folder.glob("slab-*"):
        os.truncate(slab, 0)
    try:
        store.read(torch.arange(20))
    except StoreError as failure:
        send((type(failure).__name__, str(failure)))
    own = folder / "own"
    own.write_bytes(bytes(9999))
    with own.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 9999, access=mmap.ACCESS_READ)
    os.truncate(own, 0)
    send("another's")
    send(mapped[0])


def open_as_nobody(send: Send, folder: Path) -> None:
    """As the user who runs the tests, but for root, to whom nothing is read-only."""
    if os.getuid() == 0:
        os.setuid(NOBODY)
    for read_only in (False, True):
        try:
            store = DiskStore(folder, CONFIG, read_only=read_only)
            send(int(store.read(torch.arange(20))[1].sum()))
            store.write(rows_of(CONFIG, [1], 2))
        except StoreError as failure:
            send((type(failure).__name__, str(failure)))


BATCHES = power_law(60, 40, 300, seed=5, exponent=0.8)
FLUSH_EVERY = 7


def train_step(table: HashTable, step: int) -> None:
    ids = BATCHES[step % len(BATCHES)]
    slots = table.assign(ids, train=True)
    table.update(slots, table.lookup(slots) + gradient(step, slots, table.config.dim))


def train_cached(send: Send, folder: Path, aim: str | None, calls: int, percent: int, index_rows: int) -> None:
    """Trains with prefetch, evictions, write-back and flushes; sends the steps whose rows are flushed.

    It ends at a call of the system (aim None), or of a function in a phase (phases.py).
    """
    cache = CacheConfig(
        cache_rows=130, host_rows=20, folder=folder, slab_bytes=SLAB_BYTES, io_threads=2, index_rows=index_rows
    )
    table = CachedTable(CONFIG, cache)
    phases.watch(folder, aim, calls)
    if aim is None:
        arm(folder, calls, percent=percent)
    for step in range(100_000):
        for ahead in range(step and step + 2, step + 3):
            table.prefetch(BATCHES[ahead % len(BATCHES)])
        train_step(table, step)
        if step % FLUSH_EVERY == FLUSH_EVERY - 1:
            table.flush()
            send(step)
