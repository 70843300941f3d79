"""kill -9 anywhere, a full disk, a folder that cannot be written, damaged files."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kill_report
import pytest
from children import without_devices
from hybrid_torchrec.checkpoint import (
    Checkpointer,
    CorruptCheckpoint,
    StorageFailure,
    TableShard,
    compact,
    export,
)
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.serving import Publisher
from hybrid_torchrec.table import HashTable
from small_tables import all_rows, assert_same_rows, make_table, train


def killed(folder: Path, first: int, count: int) -> list[dict[str, int]]:
    script = Path(__file__).with_name("fault_kills.py")
    argv = [sys.executable, script, folder, str(first), str(count)]
    run = subprocess.run(
        [str(part) for part in argv], capture_output=True, text=True, env=without_devices(), timeout=60 * (count + 20)
    )
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_kills_lose_nothing_that_was_committed(tmp_path: Path):
    whole, *results = killed(tmp_path, 0, 20)
    assert whole["points"] > 300 and whole["calls"] > 3000 and whole["loaded"] == 9
    assert len(results) == 20
    assert len({result["saved"] for result in results}) > 3  # the kills are spread over the run


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, kill_report.PIECE))
def test_three_hundred_kills(tmp_path: Path, first: int):
    whole, *results = killed(tmp_path, first, kill_report.PIECE)
    assert len(results) == kill_report.PIECE
    assert len({result["saved"] for result in results}) > 5 and any(result["torn"] for result in results)
    kill_report.add(whole, results)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Checkpointer, HashTable]:
    table = make_table()
    for step in range(20):
        train(table, step, of=2000)
    checkpointer = Checkpointer(tmp_path / "saved", {"user": table})
    checkpointer.save(1)
    train(table, 20, of=2000)
    return checkpointer, table


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writes past `size` bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who may write nothing here; root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_full_disk_is_named_and_harms_nothing(saved: tuple[Checkpointer, HashTable], tmp_path: Path):
    checkpointer, table = saved
    for size in (0, 1000, 20_000):
        with largest_file(size), pytest.raises(StorageFailure, match=r"\.saving-full-0+2.*(limit|space).*Free space"):
            checkpointer.save(2)
        with largest_file(min(size, 1000)), pytest.raises(StorageFailure, match="delta-.*Free space"):
            checkpointer.save_delta(2)
        with largest_file(min(size, 1000)), pytest.raises(StorageFailure, match="export-.*Free space"):
            export(tmp_path / "e", 1, {"user": TableShard(table)})
    fresh = make_table()
    assert Checkpointer(checkpointer.folder.root, {"user": fresh}).load() == 1
    checkpointer.save_delta(2)  # holds what the failed ones did not save
    Checkpointer(checkpointer.folder.root, {"user": fresh}).load()
    assert_same_rows(all_rows(fresh), all_rows(table))
    with largest_file(1000), pytest.raises(StorageFailure, match="full-.*Free space"):
        compact(checkpointer.folder.root)
    assert compact(checkpointer.folder.root).name == "full-000000000002"


def test_a_record_that_could_not_be_written_is_in_the_next(tmp_path: Path):
    table = make_table()
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    train(table, 0)
    gone = table.ids()[:2]
    publisher.publish(0)
    table.erase(gone)
    train(table, 1)
    with largest_file(200), pytest.raises(StorageFailure, match="000000000002.record.*Free space"):
        publisher.publish(1)
    changes = publisher.publish(2).tables["user"]
    still_gone = set(gone.tolist()) - set(table.ids().tolist())
    assert publisher.sequence == 2 and set(changes.erased.tolist()) == still_gone and len(changes.ids)


def test_a_folder_that_cannot_be_written_is_named():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o555)
        table = make_table()
        train(table, 0)
        with nobody():
            for call in (
                lambda: Checkpointer(root, {"user": table}).save(1),
                lambda: Checkpointer(root / "new", {"user": table}).save(1),
                lambda: export(root, 1, {"user": TableShard(table)}),
                lambda: Publisher(root, {"user": TableShard(table)}),
            ):
                with pytest.raises(StorageFailure, match=f"{root}.*no permission.*Make the folder writable"):
                    call()
        root.chmod(0o755)


@pytest.mark.parametrize("change", ["flip", "cut", "grow", "remove"])
def test_every_damaged_file_is_named_before_anything_is_loaded(saved: tuple[Checkpointer, HashTable], change: str):
    checkpointer, _ = saved
    path = checkpointer.save(2)
    for name in (*Manifest.read(path).files, "MANIFEST.json"):
        file = path / name
        data = file.read_bytes()
        middle = len(data) // 2
        if change == "remove":
            if name == "MANIFEST.json":
                continue  # then it is no checkpoint at all
            file.unlink()
        else:
            flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            file.write_bytes({"flip": flipped, "cut": data[:-2], "grow": data + b" x"}[change])
        table = make_table()
        train(table, 3)
        before = all_rows(table)
        with pytest.raises(CorruptCheckpoint, match=f"{name}: .*load an earlier checkpoint"):
            Checkpointer(checkpointer.folder.root, {"user": table}).load()
        assert_same_rows(all_rows(table), before)
        assert Checkpointer(checkpointer.folder.root, {"user": table}).load(step=1) == 1
        file.write_bytes(data)


def test_a_folder_without_a_manifest_is_no_checkpoint(saved: tuple[Checkpointer, HashTable]):
    checkpointer, _ = saved
    (checkpointer.save(2) / "MANIFEST.json").unlink()
    assert Checkpointer(checkpointer.folder.root, {"user": make_table()}).load() == 1
