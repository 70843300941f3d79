"""Writes of a store on disk."""

from __future__ import annotations

from pathlib import Path

import torch
from hybrid_torchrec import OptimizerSpec, TableConfig
from hybrid_torchrec.table import RowBatch
from rows import assert_rows, rows_of
from torchrec_embcache.store.disk import DiskStore

CONFIG = TableConfig(name="item", dim=5, optimizer=OptimizerSpec(kind="adagrad"))


def test_the_last_of_repeated_ids_wins(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "rows", CONFIG, slab_bytes=2048)
    store.write(rows_of(CONFIG, list(range(40)), 1))
    # In one call: versions 2 to 5 of some, of which the first are new and others there.
    parts = {2: range(30, 60), 3: range(20, 50), 4: range(45, 70), 5: range(10, 25)}
    store.write(RowBatch.concat([rows_of(CONFIG, list(ids), version) for version, ids in parts.items()]))
    versions = dict.fromkeys(range(40), 1)
    for version, ids in parts.items():
        versions |= dict.fromkeys(ids, version)
    assert len(store) == len(versions)
    assert store.stats().records == 40 + len({one for ids in parts.values() for one in ids})
    for _ in range(2):
        rows, found = store.read(torch.arange(80))
        assert found.tolist() == [one in versions for one in range(80)]
        assert_rows(CONFIG, rows, versions)
        store.close()
        store = DiskStore(tmp_path / "rows", CONFIG, slab_bytes=2048)
    store.close()
