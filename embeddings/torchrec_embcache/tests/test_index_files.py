"""The part of a disk store's index that is in files: equal to a dict, whatever is merged, damaged or lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hybrid_torchrec.table import TableConfig
from rows import assert_rows, rows_of
from torchrec_embcache import DiskStore, StoreCorrupt

CONFIG = TableConfig(name="item", dim=2)
SLAB_BYTES = 4000 * (16 + 8 + 16)
COUNT = 8000  # rows
ODD = -7046029254386353131


def open_store(folder: Path, index_rows: int = 500, **options: Any) -> DiskStore:
    return DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=3, index_rows=index_rows, **options)


def name(k: int) -> int:
    """A distinct id for each k, of all 64 bits."""
    return (k * ODD + 2**63) % 2**64 - 2**63


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("index-*.run"))


def filled(folder: Path, count: int = COUNT, index_rows: int = 500) -> DiskStore:
    store = open_store(folder, index_rows)
    for first in range(0, count, 700):
        store.write(rows_of(CONFIG, [name(k) for k in range(first, min(first + 700, count))], 1))
    return store


def check(store: DiskStore, versions: dict[int, int], absent: list[int]) -> None:
    ids = [*versions, *absent]
    random.Random(0).shuffle(ids)
    rows, found = store.read(torch.tensor(ids))
    assert rows.ids.tolist() == [one for one in ids if one in versions]
    assert int(found.sum()) == len(versions) == len(store)
    assert_rows(CONFIG, rows, versions)


def test_against_a_dict(folder: Path) -> None:
    """Many merges of few entries: rows in memory, in what is being merged, and in the files before and after it."""
    draw = random.Random(1)
    store = open_store(folder)
    versions: dict[int, int] = {}
    for step in range(1, 120):
        ids = [name(k) for k in draw.sample(range(9000), 300)]
        if draw.random() < 0.2:
            assert store.erase(torch.tensor(ids)) == len(versions.keys() & set(ids))
            for one in ids:
                versions.pop(one, None)
        else:
            store.write(rows_of(CONFIG, ids, step))
            versions.update(dict.fromkeys(ids, step))
        if step % 17 == 0:
            check(store, versions, [name(k) for k in range(9000, 12_000)])
        if step % 40 == 0:
            store.close()
            store = open_store(folder)
    assert runs(folder) and store.stats().bytes_compacted > 0
    assert sorted(one for part in store.scan(300) for one in part.ids.tolist()) == sorted(versions)
    store.close()
    assert len(runs(folder)) == 1  # those before it are gone


def test_memory(folder: Path) -> None:
    """An id costs the bits of the filter and its share of the newest; below index_rows the index has no file."""
    store = open_store(folder)
    used = []
    for first in range(0, 40_000, 800):
        store.write(rows_of(CONFIG, [name(k) for k in range(first, first + 800)], 1))
        if first + 800 in (20_000, 40_000):
            store._raw.flush(snapshot=True)  # ends the merge that is under way
            used.append(store.stats().index_bytes)
    assert (used[1] - used[0]) / 20_000 < 5  # 8.5 at least, if all were in memory
    store.close()
    small = filled(folder.with_name("small"), 3000, index_rows=1 << 20)
    small.close()
    assert not runs(folder.with_name("small"))


@pytest.mark.parametrize("index_rows", [500, COUNT])
def test_opening_does_not_read_the_rows(folder: Path, index_rows: int) -> None:
    filled(folder, index_rows=index_rows).close()
    store = open_store(folder, index_rows)
    assert store.stats().bytes_read == 0
    check(store, dict.fromkeys(map(name, range(COUNT)), 1), [name(k) for k in range(COUNT, COUNT + 9000)])
    store.close()


def test_open_for_reading(folder: Path) -> None:
    """A reader makes and removes no file, also where a writer was killed in the middle of a merge."""
    filled(folder).close()
    (folder / "index-00009999.run").write_bytes(b"torn")
    before = sorted(path.name for path in folder.iterdir())
    store = open_store(folder, read_only=True)
    check(store, dict.fromkeys(map(name, range(COUNT)), 1), [name(k) for k in range(COUNT, COUNT + 5000)])
    store.close()
    assert sorted(path.name for path in folder.iterdir()) == before
    open_store(folder).close()
    assert len(runs(folder)) == 1 and runs(folder)[0].name != "index-00009999.run"


def test_a_lost_file_is_made_again(folder: Path) -> None:
    filled(folder).close()
    versions = dict.fromkeys(map(name, range(COUNT)), 1)
    for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])):
        damage(runs(folder)[0])
        store = open_store(folder, read_only=True)
        check(store, versions, [name(COUNT)])
        store.close()
        store = open_store(folder)
        check(store, versions, [name(COUNT)])
        store.close()


@pytest.mark.parametrize("place", [0, 20, 36, 44, 52, 60, 70, 90, 2000, -3])
def test_a_damaged_snapshot_is_none(folder: Path, place: int) -> None:
    """Wherever it is damaged, sizes and counts too, the index is made again from the rows."""
    filled(folder, 3000).close()
    path = folder / "store.index"
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)
    store = open_store(folder)
    assert store.stats().bytes_read == 0 and store.stats().rows == 3000
    check(store, dict.fromkeys(map(name, range(3000)), 1), [name(3000)])
    store.close()


def test_a_damaged_page_is_no_absent_row(folder: Path) -> None:
    filled(folder).close()
    path = runs(folder)[0]
    data = bytearray(path.read_bytes())
    data[5 * 4096 + 100] ^= 1
    path.write_bytes(data)
    store = open_store(folder)
    damaged = 0
    for first in range(0, COUNT, 50):
        try:
            assert bool(store.read(torch.tensor([name(k) for k in range(first, first + 50)]))[1].all())
        except StoreCorrupt as error:
            assert path.name in str(error) and "page 5 at byte 20480" in str(error) and "delete this file" in str(error)
            damaged += 1
    assert damaged > 0
    with pytest.raises(StoreCorrupt, match=path.name):
        store.write(rows_of(CONFIG, [name(k) for k in range(COUNT)], 2))  # has to know which rows these replace
    written = COUNT
    with pytest.raises(StoreCorrupt, match=path.name):
        while written < 2 * COUNT:  # the next merge reads the page
            written += 100
            store.write(rows_of(CONFIG, [name(k) for k in range(written - 100, written)], 1))
    with pytest.raises(StoreCorrupt, match=path.name):
        store.close()
    store._raw.close()
    path.unlink()
    store = open_store(folder)
    check(store, dict.fromkeys(map(name, range(written)), 1), [name(written)])
    store.close()


def test_readers_beside_merges(folder: Path) -> None:
    """Every row that was written is found while entries move from memory to files."""
    store = filled(folder, 4000)
    failures: list[str] = []
    stop = threading.Event()

    def read(seed: int) -> None:
        draw = random.Random(seed)
        while not stop.is_set():
            ids = [name(k) for k in draw.sample(range(4000), 200)]
            rows, found = store.read(torch.tensor(ids))
            if not bool(found.all()) or rows.ids.tolist() != ids:
                failures.append(f"{int((~found).sum())} rows missing")

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for first in range(4000, 40_000, 900):
        store.write(rows_of(CONFIG, [name(k) for k in range(first, first + 900)], 1))
        store.write(rows_of(CONFIG, [name(k) for k in range(first % 4000, first % 4000 + 100)], 2))
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    store.close()
