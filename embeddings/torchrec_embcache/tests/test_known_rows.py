"""Rows whose place is known from a read or a write: their next write reads nothing, and hits no other row."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from hybrid_torchrec import OptimizerSpec, TableConfig
from rows import assert_rows, rows_of
from torchrec_embcache.store.disk import DiskStore

CONFIG = TableConfig(name="item", dim=5, optimizer=OptimizerSpec(kind="adagrad"))


def test_slabs_that_come_and_go_mix_up_no_rows(tmp_path: Path) -> None:
    """An index on disk keeps entries of rows that are gone, whose places other ids take: they are read as nobody's."""
    draw = random.Random(0)
    store = DiskStore(tmp_path / "rows", CONFIG, slab_bytes=2048, io_threads=2, index_rows=2)
    versions: dict[int, int] = {}
    everything = torch.arange(60)
    for version in range(1, 400):
        ids = draw.sample(range(60), draw.randrange(1, 25))
        if draw.random() < 0.2:
            assert store.erase(torch.tensor(ids)) == sum(versions.pop(one, None) is not None for one in ids)
        else:
            store.write(rows_of(CONFIG, ids, version))
            versions |= dict.fromkeys(ids, version)
        some = torch.tensor(draw.sample(range(60), 30))
        for asked in (some, everything):
            rows, found = store.read(asked)
            assert found.tolist() == [one in versions for one in asked.tolist()], version
            assert_rows(CONFIG, rows, versions)
        assert len(store) == len(versions)
        if version % 90 == 0:
            store.close()
            store = DiskStore(tmp_path / "rows", CONFIG, slab_bytes=2048, io_threads=2, index_rows=2)
    assert store.stats().bytes_compacted > 0
    store.close()


def test_rows_that_were_written_or_read_are_overwritten_unread(tmp_path: Path) -> None:
    head = 16  # bytes of a record with its id
    few = 100 * head  # five rows share a place in what is known, and some have made room
    ids = list(range(1000))
    with_rows = DiskStore(tmp_path / "rows", CONFIG)
    with_rows.write(rows_of(CONFIG, ids, 1))
    before = with_rows.stats().bytes_read
    with_rows.write(rows_of(CONFIG, ids, 2))
    assert with_rows.stats().bytes_read < before + few
    with_rows.close()
    again = DiskStore(tmp_path / "rows", CONFIG)  # what it knew is gone
    before = again.stats().bytes_read
    again.write(rows_of(CONFIG, ids[:500], 3))
    looked = again.stats().bytes_read
    assert looked == before + 500 * head
    again.read(torch.tensor(ids[500:]))
    read = again.stats().bytes_read
    again.write(rows_of(CONFIG, ids, 4))
    assert again.stats().bytes_read < read + few
    rows, found = again.read(torch.tensor(ids))
    assert bool(found.all())
    assert_rows(CONFIG, rows, dict.fromkeys(ids, 4))
    again.close()
