"""Host memory over disk: what goes to disk, what is there already, and that no row is lost on its way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hybrid_torchrec import OptimizerSpec, TableConfig
from rows import assert_rows, rows_of
from torchrec_embcache import DiskStore, MemoryStore, StoreIOError
from torchrec_embcache.store.tiered import TieredStore

CONFIG = TableConfig(name="item", dim=4, optimizer=OptimizerSpec(kind="adagrad"))
RECORD_BYTES = 16 + 4 * (4 + 4) + 16


class Tiers:
    """A TieredStore, and the version of each row that was written last."""

    def __init__(self, folder: Path, host_rows: int) -> None:
        self.host = MemoryStore(CONFIG)
        self.disk = DiskStore(folder, CONFIG, slab_bytes=1 << 16)
        self.store = TieredStore(self.host, self.disk, host_rows)
        self.versions: dict[int, int] = {}

    def write(self, ids: range, version: int) -> int:
        """Returns how many records that wrote to disk."""
        before = self.records()
        self.store.write(rows_of(CONFIG, list(ids), version))
        self.versions.update(dict.fromkeys(ids, version))
        return self.records() - before

    def flush(self) -> int:
        before = self.records()
        self.store.flush()
        return self.records() - before

    def records(self) -> int:
        stats = self.disk.stats()
        return (stats.bytes_written - stats.bytes_compacted) // RECORD_BYTES

    def check(self) -> None:
        for ids in torch.tensor(sorted(self.versions)).split(50):
            rows, found = self.store.read(ids)
            assert bool(found.all())
            assert_rows(CONFIG, rows, self.versions)
        assert len(self.store) == len(self.versions)
        scanned = torch.cat([rows.ids for rows in self.store.scan(70)])
        assert scanned.sort().values.tolist() == sorted(self.versions)


@pytest.fixture
def tiers(tmp_path: Path) -> Tiers:
    return Tiers(tmp_path / "rows", host_rows=320)


def test_rows_that_are_on_disk_as_they_are_are_not_written_again(tiers: Tiers) -> None:
    assert tiers.write(range(300), 1) == 0
    assert tiers.flush() == 300
    assert tiers.flush() == 0
    assert tiers.write(range(40), 2) == 0
    # 80 rows too many: the oldest are 40 to 299, all of which the flush has written.
    assert tiers.write(range(300, 400), 3) == 0
    tiers.check()
    assert len(tiers.host) == 320
    # Then the other 180 of them go, and 20 of the 40 that were changed since.
    assert tiers.write(range(400, 600), 4) == 20
    tiers.check()
    assert tiers.flush() == 320
    assert tiers.flush() == 0
    tiers.check()
    tiers.store.close()


def test_rows_that_were_erased_come_back_as_new_ones(tiers: Tiers) -> None:
    tiers.write(range(300), 1)
    tiers.flush()
    assert tiers.store.erase(torch.arange(100, 200)) == 100
    for one in range(100, 200):
        tiers.versions.pop(one)
    tiers.check()
    tiers.write(range(150, 180), 0)  # older than all others: the first to be spilled
    assert tiers.write(range(1000, 1130), 2) == 30
    tiers.check()
    tiers.store.close()


def test_a_flush_that_failed_is_made_again(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_fire() -> None:
        raise StoreIOError("the disk is on fire")

    tiers.write(range(300), 1)
    with monkeypatch.context() as patch:
        patch.setattr(tiers.disk, "flush", on_fire)
        with pytest.raises(StoreIOError, match="on fire"):
            tiers.flush()
    assert tiers.flush() == 300  # none of them counts as being on disk
    tiers.check()
    tiers.store.close()


def test_a_spill_that_failed_leaves_its_rows_in_host_memory(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_fire(*_: object) -> None:
        raise StoreIOError("the disk is on fire")

    tiers.write(range(300), 1)
    rows = rows_of(CONFIG, list(range(300, 400)), 2)
    tiers.versions.update(dict.fromkeys(range(300, 400), 2))
    with monkeypatch.context() as patch:
        patch.setattr(tiers.disk, "write", on_fire)
        with pytest.raises(StoreIOError, match="on fire"):
            tiers.store.write(rows)
    assert len(tiers.host) == 400
    tiers.check()
    tiers.store.write(rows)
    assert len(tiers.host) == 320
    tiers.check()
    tiers.store.close()


def test_spills_of_many_rows(tmp_path: Path) -> None:
    """More than go at once, several times."""
    tiers = Tiers(tmp_path / "rows", host_rows=5000)
    for version in range(1, 5):
        tiers.write(range(version * 4000, version * 4000 + 14_000), version)
        assert len(tiers.host) <= 5000
        if version == 2:
            tiers.flush()
    tiers.check()
    tiers.store.close()
