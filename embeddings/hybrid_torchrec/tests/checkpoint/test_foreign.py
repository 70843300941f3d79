"""What others put beside checkpoints, or into them, is there after every save, removal, compaction and publication."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import Checkpointer, CheckpointError, TableShard, compact, export
from hybrid_torchrec.checkpoint.folder import CheckpointFolder
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.serving.layout import StreamShard
from small_tables import all_rows, assert_same_rows, make_table, train

LIKE_OURS = (
    "checkpoints/model.pt",
    "other-model/run/shard-00000-of-00001/export-000000000000/weights.safetensors",
    "0123456789abcdef/shard-00000-of-00001/000000000001.record",
    "full-000000000007/notes.txt",  # named as ours, with no manifest of ours
    "delta-000000000099/MANIFEST.json",  # a manifest of somebody else
    "export-000000000777/model.onnx",
    ".saving-my-work/draft",
    ".saving-full-000000000008/__0_0.distcp",
    ".removed-emails/mail",
    ".removed-full-000000000001-0a1b2c3d/mine",
    "notes.record",
    "request-for-leave",
)


def plant(root: Path) -> dict[str, bytes]:
    """Files of others under `root`, by name."""
    files = {name: f"mine: {name}".encode() for name in LIKE_OURS}
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty").mkdir()
    return files


def assert_there(root: Path, files: dict[str, bytes]) -> None:
    missing = [name for name, data in files.items() if not (root / name).exists() or (root / name).read_bytes() != data]
    assert missing == [] and (root / "empty").is_dir()


def follow(consumer: Consumer) -> None:
    while consumer.poll():
        pass


def test_a_publisher_removes_its_own_runs_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    root = tmp_path / "stream"
    files = plant(root)
    table = make_table()
    publishers = []
    for step in range(4):
        train(table, step)
        publishers.append(Publisher(root, {"user": TableShard(table)}, keep=1))
        publishers[-1].publish(step)
        publishers[-1].publish_base(step)
        if step == 0:
            shutil.copytree(root / publishers[0].run, root / "copy of the run")
            shutil.copytree(root / publishers[0].run, elsewhere)
            (root / "fedcba9876543210").symlink_to(elsewhere, target_is_directory=True)
    assert_there(root, files)
    left = {path.name for path in root.iterdir() if path.is_dir()}
    assert {publisher.run for publisher in publishers} & left == {publisher.run for publisher in publishers[2:]}
    for copy in ("copy of the run", "fedcba9876543210"):
        assert StreamShard.of(root, copy, 0, 1).bases() != [], copy
    consumer = Consumer(root, name="c")
    follow(consumer)
    rows = all_rows(table)
    assert torch.equal(consumer.lookup("user", rows.ids)[0], rows.weights)


@pytest.mark.parametrize("place", ["", "shard-00000-of-00001", "shard-00000-of-00001/export-000000000000"])
def test_what_others_put_into_a_run_stays(tmp_path: Path, place: str) -> None:
    table = make_table()
    first = Publisher(tmp_path, {"user": TableShard(table)}, keep=1)
    files = plant(tmp_path / first.run / place)
    if place == first.shard.path.name:  # there it is how consumers ask
        del files["request-for-leave"]
    for step in range(3):
        train(table, step)
        first.publish(step)
        first.publish_base(step)
    for _ in range(2):
        Publisher(tmp_path, {"user": TableShard(table)})
    assert_there(tmp_path / first.run / place, files)
    ours = [path for path in (tmp_path / first.run).rglob("0*.record") if path.parent == first.shard.path]
    assert ours == [] and first.shard.bases() == []


def test_a_run_that_is_all_ours_goes_whole(tmp_path: Path) -> None:
    table = make_table()
    first = Publisher(tmp_path, {"user": TableShard(table)})
    first.shard.request_base("../../c", "a gap")
    torn = CheckpointFolder(first.shard.path).begin("export", 9)
    (torn / "user.shard-00000-of-00001.part-00000.safetensors").write_bytes(b"half")
    assert [path.parent for path in first.shard.requests()] == [first.shard.path]
    for _ in range(2):
        Publisher(tmp_path, {"user": TableShard(table)})
    assert not (tmp_path / first.run).exists()


def test_nothing_is_published_into_a_folder_with_another_current(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("MANIFEST-000004\n")  # RocksDB's
    with pytest.raises(CheckpointError, match=f"{tmp_path}/CURRENT: not that of a delta stream.*another folder"):
        Publisher(tmp_path, {"user": TableShard(make_table())})
    assert [path.name for path in tmp_path.iterdir()] == ["CURRENT"]


def test_saves_removals_and_compaction_leave_others_alone(tmp_path: Path) -> None:
    files = plant(tmp_path)
    table = make_table()
    checkpointer = Checkpointer(tmp_path, {"user": table}, keep=1)
    for step in (101, 102, 103):
        train(table, step)
        checkpointer.save(step)
        train(table, step + 50)
        if step < 103:
            continue
        checkpointer.save_delta(104)
        compact(tmp_path, 104)
        export(tmp_path, 105, {"user": TableShard(table)})
    assert checkpointer.remove_old() == ["full-000000000103", "delta-000000000104"]
    assert_there(tmp_path, files)
    again = make_table()
    assert Checkpointer(tmp_path, {"user": again}).load(step=104) == 104
    assert_same_rows(all_rows(again), all_rows(table))


def test_files_of_others_in_an_old_checkpoint_stay_where_they_are(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, {"user": make_table()}, keep=1)
    notes = checkpointer.save(1) / "notes.txt"
    notes.write_text("the good one")
    checkpointer.save(2)
    checkpointer.save(3)
    assert [path.name for path in notes.parent.iterdir()] == ["notes.txt"] and checkpointer.steps() == [3]


@pytest.mark.parametrize("kind", ["full", "export"])
@pytest.mark.parametrize("name", ["{kind}-000000000005", ".saving-{kind}-000000000005"])
def test_a_save_does_not_take_the_place_of_others(tmp_path: Path, kind: str, name: str) -> None:
    mine = tmp_path / name.format(kind=kind) / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    table = make_table()
    with pytest.raises(CheckpointError, match="move it away"):
        if kind == "full":
            Checkpointer(tmp_path, {"user": table}).save(5)
        else:
            export(tmp_path, 5, {"user": TableShard(table)})
    assert mine.read_text() == "mine"


def test_a_run_removes_no_checkpoints_of_another(tmp_path: Path) -> None:
    """They are of other trainings, though they lie in one folder; a run that loads one goes on with it."""
    table = make_table()
    first = Checkpointer(tmp_path, {"user": table}, keep=2)
    for step in (1, 2):
        first.save(step)
    second = Checkpointer(tmp_path, {"user": make_table()}, keep=1)
    for step in (10, 11, 12):
        second.save(step)
    assert first.steps() == [1, 2, 12]
    resumed = Checkpointer(tmp_path, {"user": make_table()}, keep=1)
    resumed.load()
    resumed.save(13)
    assert resumed.steps() == [1, 2, 13]


def test_checkpoints_from_before_runs_had_names_load_and_stay(tmp_path: Path) -> None:
    table = make_table()
    train(table, 0)
    path = Checkpointer(tmp_path, {"user": table}).save(1)
    manifest = Manifest.read(path)
    (path / "MANIFEST.json").unlink()
    Manifest(**{**vars(manifest), "run": None}).write(path)
    assert '"run"' not in (path / "MANIFEST.json").read_text()
    again = make_table()
    checkpointer = Checkpointer(tmp_path, {"user": again}, keep=1)
    assert checkpointer.load() == 1
    assert_same_rows(all_rows(again), all_rows(table))
    for step in (2, 3):
        checkpointer.save(step)
    assert checkpointer.steps() == [1, 3]


def test_a_removal_that_was_cut_off_is_finished_by_the_next_save(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, {"user": make_table()}, keep=9)
    whole, half, bare = (checkpointer.save(step) for step in (1, 2, 3))
    (half / ".metadata").unlink()
    for path in bare.iterdir():
        path.unlink()
    (bare / "mine").write_text("mine")  # all of ours went, and then it was killed
    for path in (whole, half, bare):
        path.rename(path.with_name(f".removed-{path.name}-0123abcd"))
    torn = CheckpointFolder(tmp_path).begin("full", 8)
    (torn / "__0_0.distcp").write_bytes(b"half")
    checkpointer.save(9)
    left = [".lock", ".removed-full-000000000003-0123abcd", "full-000000000009"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert [path.name for path in (tmp_path / left[1]).iterdir()] == ["mine"]
