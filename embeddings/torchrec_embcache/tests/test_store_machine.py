"""Stores against a dict, under hypothesis: writes, erasures, reads, reopening, and crashes at any point of a copy."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import TableConfig
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from rows import assert_rows, rows_of
from torchrec_embcache import DiskStore, MemoryStore, RowStore
from torchrec_embcache.store.tiered import TieredStore
from torchrec_embcache.store.write_behind import WriteBehind

CONFIG = TableConfig(name="item", dim=3, optimizer=OptimizerSpec(kind="adagrad"))
EDGES = [0, -1, 2**63 - 1, -(2**63)]
IDS = st.integers(0, 60) | st.sampled_from(EDGES)
SOME = st.sets(IDS, min_size=1, max_size=25).map(sorted)
RECORD_BYTES = 16 + 4 * (3 + 3) + 16
SLAB_BYTES = 30 * RECORD_BYTES  # 30 records, so that slabs are left, compacted and deleted


class StoreMachine(RuleBasedStateMachine):
    """The disk store by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="embcache-"))
        self.version = 0
        self.versions: dict[int, int] = {}
        self.store: RowStore = self.open(self.folder / "rows")

    def open(self, folder: Path) -> RowStore:
        return DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(ids=SOME)
    def write(self, ids: list[int]) -> None:
        self.version += 1
        self.store.write(rows_of(CONFIG, ids, self.version))
        self.versions.update(dict.fromkeys(ids, self.version))

    @rule(ids=SOME)
    def erase(self, ids: list[int]) -> None:
        assert self.store.erase(torch.tensor(ids)) == len(self.versions.keys() & set(ids))
        for one in ids:
            self.versions.pop(one, None)

    @rule(ids=st.lists(IDS, max_size=30))
    def read(self, ids: list[int]) -> None:
        rows, found = self.store.read(torch.tensor(ids, dtype=torch.int64))
        assert found.tolist() == [one in self.versions for one in ids]
        assert rows.ids.tolist() == [one for one in ids if one in self.versions]
        assert_rows(CONFIG, rows, self.versions)

    @rule(chunk=st.integers(1, 40))
    def scan(self, chunk: int) -> None:
        parts = list(self.store.scan(chunk))
        assert all(0 < len(part) <= chunk or isinstance(self, TiersMachine) for part in parts)
        ids = [one for part in parts for one in part.ids.tolist()]
        assert sorted(ids) == sorted(self.versions)
        for part in parts:
            assert_rows(CONFIG, part, self.versions)

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open(self.folder / "rows")

    @invariant()
    def count(self) -> None:
        assert len(self.store) == len(self.versions)


class CrashMachine(StoreMachine):
    """A copy of the files at any moment, as a killed process leaves them, holds everything."""

    crashes = 0

    @rule()
    def crash(self) -> None:
        self.crashes += 1
        copy = self.folder / f"crash-{self.crashes}"
        shutil.copytree(self.folder / "rows", copy)
        self.store.close()
        self.store = self.open(copy)
        shutil.rmtree(self.folder / "rows")
        self.store.close()
        copy.rename(self.folder / "rows")
        self.store = self.open(self.folder / "rows")

    @rule(torn=st.integers(1, RECORD_BYTES - 1), data=st.data())
    def torn_write(self, torn: int, data: st.DataObject) -> None:
        """The last record was not written to its end: the store is as if it had not been begun."""
        ids = data.draw(st.lists(IDS, min_size=1, max_size=1))
        self.store.close()
        newest = max((self.folder / "rows").glob("slab-*"), default=None)
        if newest is not None and newest.stat().st_size < 64 + SLAB_BYTES:
            with newest.open("ab") as file:
                file.write(bytes([ids[0] % 256]) * torn)
        self.store = self.open(self.folder / "rows")


class IndexMachine(CrashMachine):
    """Nearly all of the index on disk, merged all the time; copies are taken in the middle of a merge too."""

    def open(self, folder: Path) -> RowStore:
        return DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2, index_rows=4)


class TiersMachine(StoreMachine):
    """Write-back over host memory over disk."""

    def open(self, folder: Path) -> RowStore:
        disk = DiskStore(folder, CONFIG, slab_bytes=SLAB_BYTES, io_threads=2)
        return WriteBehind(TieredStore(MemoryStore(CONFIG), disk, host_rows=12), limit=20, name="item")


FEW = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStore = StoreMachine.TestCase
TestStore.settings = FEW
TestCrash = CrashMachine.TestCase
TestCrash.settings = FEW
TestIndex = IndexMachine.TestCase
TestIndex.settings = FEW
TestTiers = TiersMachine.TestCase
TestTiers.settings = FEW
