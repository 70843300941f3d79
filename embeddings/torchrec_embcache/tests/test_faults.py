"""Full, read-only and failing disks, damaged files: errors that say where and what to do, and no wrong row."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from faulty import run, server
from hybrid_torchrec.table import TableConfig
from programs import CONFIG, INDEX_ROWS, NOBODY, SLAB_BYTES, fill_store, open_as_nobody, read_badly, read_what_was_cut
from rows import assert_rows, rows_of
from torchrec_embcache import (
    CacheConfig,
    CachedTable,
    CacheTooSmall,
    DiskStore,
    StoreCorrupt,
    StoreError,
    StoreInputError,
    StoreIOError,
    StoreLocked,
    StoreReadOnly,
)
from torchrec_embcache.store.raw import RawStore


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> object:
    return server(tmp_path_factory.mktemp("faulty"))


def open_store(folder: Path, **options: object) -> DiskStore:
    return DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2, **options)  # type: ignore[arg-type]


def filled(folder: Path, rows: int = 300) -> None:
    store = open_store(folder)
    for first in range(0, rows, 50):
        store.write(rows_of(CONFIG, list(range(first, first + 50)), 1))
    store.close()


@pytest.mark.parametrize("index_rows", INDEX_ROWS)
@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5, 6, 7, 30])
def test_full_disk(context: object, folder: Path, calls: int, index_rows: int) -> None:
    """At any write: an error with the remedy, and the store goes on once there is room."""
    sent, code = run(context, fill_store, folder, calls, errno.ENOSPC, index_rows)
    (kind, message), (step, all_there) = sent
    assert code == 0 and kind == "StoreDiskFull" and all_there
    assert str(folder) in message and "make room" in message
    store = open_store(folder)
    rows, found = store.read(torch.arange(step * 20 + 20))
    assert bool(found.all())
    assert_rows(CONFIG, rows, dict.fromkeys(rows.ids.tolist(), 1))
    store.close()


def test_disk_that_fails(context: object, folder: Path) -> None:
    sent, _ = run(context, fill_store, folder, 9, errno.EIO, INDEX_ROWS[0])
    assert sent[0][0] == "StoreIOError" and "Input/output error" in sent[0][1] and "check the disk" in sent[0][1]
    sent, ended = run(context, read_badly, folder)
    assert sent[0] > 0 and ended == 0  # files were mapped, and no signal of theirs ended the process
    assert sent[1][0] == "StoreIOError" and "slab-" in sent[1][1]


def test_file_that_is_cut_while_it_is_open(context: object, folder: Path) -> None:
    """Of what is mapped of it nothing is left: SIGBUS, which the store takes where its own reads have caused it."""
    sent, ended = run(context, read_what_was_cut, folder)
    assert sent[0][0] == "StoreCorrupt" and "checksum" in sent[0][1]
    assert sent[1:] == ["another's"] and ended == -signal.SIGBUS


@pytest.mark.parametrize("writable", ["nothing", "files"])
def test_read_only_disk(context: object, folder: Path, writable: str) -> None:
    """files: those that are there are the user's own, but the folder takes no other."""
    filled(folder)
    for parent in folder.parents:
        if parent == folder.parent or parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    for file in folder.iterdir():
        if writable == "nothing":
            file.chmod(0o444)
        elif os.getuid() == 0:
            os.chown(file, NOBODY, NOBODY)
    folder.chmod(0o555)
    sent, _ = run(context, open_as_nobody, folder)
    assert sent[0][0] == "StoreReadOnly" and "read_only=True" in sent[0][1]
    assert sent[1] == 20
    assert sent[2][0] == "StoreReadOnly"


def test_write_to_a_store_that_is_open_for_reading(folder: Path) -> None:
    filled(folder)
    with pytest.raises(StoreInputError, match="no store"):
        open_store(folder.parent / "elsewhere", read_only=True)
    readers = [open_store(folder, read_only=True) for _ in range(2)]
    assert len(readers[0]) == len(readers[1]) == 300
    with pytest.raises(StoreReadOnly, match="open it without"):
        readers[0].write(rows_of(CONFIG, [1], 2))
    with pytest.raises(StoreLocked, match="another process"):
        open_store(folder)
    for reader in readers:
        reader.close()
    with pytest.raises(StoreIOError, match="closed"):
        readers[0].read(torch.arange(3))


def test_damaged_row(folder: Path) -> None:
    """One bit of a row: reading it says which; the others are read; repair drops it."""
    filled(folder)
    slab = sorted(folder.glob("slab-*"))[1]
    data = bytearray(slab.read_bytes())
    data[64 + 3 * 64 + 30] ^= 4
    slab.write_bytes(data)
    store = open_store(folder)
    damaged = []
    for one in range(300):
        try:
            rows, found = store.read(torch.tensor([one]))
            assert bool(found.all())
            assert_rows(CONFIG, rows, {one: 1})
        except StoreCorrupt as error:
            assert slab.name in str(error) and f"id {one} " in str(error) and "repair" in str(error)
            damaged.append(one)
    assert len(damaged) == 1
    with pytest.raises(StoreCorrupt, match=slab.name):
        list(store.scan(100))
    for version in range(2, 12):  # compaction goes around it
        store.write(rows_of(CONFIG, [one for one in range(300) if one not in damaged], version))
    with pytest.raises(StoreCorrupt):
        store.read(torch.tensor(damaged))
    store.close()
    assert DiskStore.repair(folder, CONFIG) == 1
    store = open_store(folder)
    rows, found = store.read(torch.arange(300))
    assert (~found).nonzero().flatten().tolist() == damaged
    assert_rows(CONFIG, rows, dict.fromkeys(rows.ids.tolist(), 11))
    assert len(list(store.scan(100))) > 0
    store.close()


def test_damaged_files(folder: Path) -> None:
    filled(folder)
    (folder / "store.index").write_bytes(b"x" + (folder / "store.index").read_bytes()[1:])
    store = open_store(folder)  # the index is made again from the slabs
    assert int(store.read(torch.arange(300))[1].sum()) == 300
    store.close()
    slab = sorted(folder.glob("slab-*"))[0]
    whole = slab.read_bytes()
    slab.write_bytes(whole[:-100])
    with pytest.raises(StoreCorrupt, match=f"{slab.name}.*shorter"):
        open_store(folder)
    slab.write_bytes(b"y" + whole[1:])
    with pytest.raises(StoreCorrupt, match=f"{slab.name}.*header"):
        open_store(folder)
    slab.write_bytes(whole)
    commit = (folder / "store.commit").read_bytes()
    (folder / "store.commit").write_bytes(commit[:20] + b"z" + commit[21:])
    with pytest.raises(StoreCorrupt, match=r"store\.commit.*checkpoint"):
        open_store(folder)
    (folder / "store.commit").unlink()
    with pytest.raises(StoreCorrupt, match="slabs without"):
        open_store(folder)
    (folder / "store.commit").write_bytes(commit)
    (folder / "table.json").write_text("{")
    with pytest.raises(StoreCorrupt, match=r"table\.json"):
        open_store(folder)


def test_slab_of_another_store(folder: Path) -> None:
    other = folder.with_name("other")
    filled(folder)
    filled(other)
    name = sorted(folder.glob("slab-*"))[0].name
    (folder / name).write_bytes((other / name).read_bytes())
    with pytest.raises(StoreCorrupt, match="of another store"):
        open_store(folder)


def test_a_later_slab_of_another_store_is_not_taken_for_a_torn_one(folder: Path) -> None:
    other = folder.with_name("other")
    filled(folder)
    filled(other)
    data = sorted(other.glob("slab-*"))[0].read_bytes()
    mine = folder / "slab-000000000999.rows"
    mine.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=f"{mine.name}: is of another store; move it out"):
        open_store(folder)
    assert mine.read_bytes() == data


def test_copies_beside_the_files_of_a_store_are_left_alone(folder: Path) -> None:
    filled(folder)
    copies = {}
    for path in [*folder.glob("slab-*"), *folder.glob("index-*")]:
        copies[path.with_name(f"{path.name}.bak")] = path.read_bytes()
    copies[folder / "slab-7.rows"] = copies[folder / "index-00000077.run.old"] = b"mine"
    for path, data in copies.items():
        path.write_bytes(data)
    for _ in range(2):
        open_store(folder).close()
    assert all(path.read_bytes() == data for path, data in copies.items())


def test_committed_records_that_cannot_be_read_stop_the_opening(folder: Path) -> None:
    filled(folder)
    (folder / "store.index").unlink()
    slab = sorted(folder.glob("slab-*"))[0]
    data = bytearray(slab.read_bytes())
    data[64 + 16] ^= 1
    slab.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="it was committed"):
        open_store(folder)


def test_other_shape(folder: Path) -> None:
    filled(folder)
    for other in (replace(CONFIG, dim=6), replace(CONFIG, dtype=torch.float16)):
        with pytest.raises(StoreInputError, match="another folder"):
            DiskStore(folder, other)
    with pytest.raises(StoreError, match="rows of 8 bytes"):
        store = RawStore(folder.with_name("raw"), 40, slab_bytes=4096, io_threads=1)
        store.write(torch.arange(2), [torch.zeros(2, 2)])


def test_a_batch_that_cannot_fit() -> None:
    table = CachedTable(TableConfig(name="item", dim=4), CacheConfig(cache_rows=10))
    with pytest.raises(CacheTooSmall, match="11 distinct ids, but cache_rows is 10; set cache_rows to at least 11"):
        table.assign(torch.arange(11), train=True)
    table.prefetch(torch.arange(12))
    with pytest.raises(CacheTooSmall, match="12 distinct ids"):
        table.assign(torch.arange(12), train=True)
    table.cancel_prefetch()
    slots = table.assign(torch.arange(10), train=True)
    table.update(slots, torch.ones(10, 4))
    table.close()


def test_configs_that_cannot_be() -> None:
    for table, cache, message in (
        (TableConfig(name="item", dim=4, max_rows=5), CacheConfig(cache_rows=3), "max_rows and eviction forget rows"),
        (TableConfig(name="item", dim=4), CacheConfig(cache_rows=0), "at least 1"),
        (TableConfig(name="item", dim=4), CacheConfig(cache_rows=3, host_rows=4), "needs a folder"),
    ):
        with pytest.raises(ValueError, match=message):
            CachedTable(table, cache)
