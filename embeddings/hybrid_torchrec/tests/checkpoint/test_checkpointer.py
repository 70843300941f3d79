"""Full checkpoints: everything comes back bit by bit, in one checkpoint with the dense model, or not at all."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hybrid_torchrec.checkpoint import (
    Checkpointer,
    CheckpointError,
    HashLoadPlanner,
    HashSavePlanner,
    HashTables,
    NoCheckpoint,
    TableMismatch,
    TableShard,
    folder,
)
from hybrid_torchrec.checkpoint.parts import Key, Shape
from hybrid_torchrec.checkpoint.removal import UNFINISHED, remove_folder
from hybrid_torchrec.checkpoint.tables import TableLeaf
from hybrid_torchrec.optimizers import KINDS
from hybrid_torchrec.policies import TTL, AdmitAfter, AdmitWithProbability, Score
from hybrid_torchrec.table import HashTable
from small_tables import all_rows, assert_same_rows, assert_same_table, make_table, train


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_goes_on_as_if_never_stopped(tmp_path: Path, kind: str, dtype: torch.dtype):
    whole = make_table(kind, dtype)
    for step in range(6):
        train(whole, step)
        if step == 2:
            Checkpointer(tmp_path, {"user": whole}).save(3)
    resumed = make_table(kind, dtype)
    assert Checkpointer(tmp_path, {"user": resumed}).load() == 3
    for step in range(3, 6):
        train(resumed, step)
    assert_same_table(resumed, whole)


@pytest.mark.parametrize(
    "policy",
    [
        {"admission": AdmitAfter(sightings=3)},
        {"admission": AdmitAfter(sightings=3, sketch=(64, 2))},
        {"admission": AdmitWithProbability(probability=0.4)},
        {"max_rows": 60},
        {"max_rows": 60, "eviction": Score(decay=0.9, share=0.1)},
        {"eviction": TTL(steps=3, interval=1)},
        {"per_id": False},
    ],
    ids=["sightings", "sketch", "probability", "lfu", "score", "ttl", "by order"],
)
def test_policies_go_on_where_they_were(tmp_path: Path, policy: dict[str, object]):
    def step_of(table: HashTable, step: int) -> None:
        train(table, step)
        clicked = table.ids().sort().values[:3]
        table.add_clicks(clicked, torch.ones(len(clicked)))

    whole = make_table(**policy)
    for step in range(12):
        step_of(whole, step)
        if step == 5:
            Checkpointer(tmp_path, {"user": whole}).save(6)
    resumed = make_table(**policy)
    Checkpointer(tmp_path, {"user": resumed}).load()
    for step in range(6, 12):
        step_of(resumed, step)
    assert_same_table(resumed, whole)


def test_dense_model_and_optimizer_sit_beside_the_tables(tmp_path: Path):
    torch.manual_seed(0)
    model, table = torch.nn.Linear(4, 2), make_table()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    train(table, 0)
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    Checkpointer(tmp_path, {"user": table}).save(7, {"model": model, "optimizer": optimizer, "note": {"epoch": 2}})

    other = torch.nn.Linear(4, 2)
    state = {"model": other, "optimizer": torch.optim.Adam(other.parameters()), "note": {"epoch": 0}}
    state["optimizer"].zero_grad()
    other(torch.randn(3, 4)).sum().backward()
    state["optimizer"].step()
    fresh = make_table()
    train(fresh, 5)  # what is in the table before a load goes
    assert Checkpointer(tmp_path, {"user": fresh}).load(state) == 7
    assert all(torch.equal(value, saved[name]) for name, value in other.state_dict().items())
    assert state["note"] == {"epoch": 2}
    moments = state["optimizer"].state_dict()["state"][0]["exp_avg"]
    assert torch.equal(moments, optimizer.state_dict()["state"][0]["exp_avg"])
    assert_same_table(fresh, table)


def test_plain_dcp_takes_the_tables_too(tmp_path: Path):
    table, fresh = make_table(), make_table()
    train(table, 0)
    dense = torch.arange(5.0)
    dcp.save(
        {"w": dense, "tables": HashTables({"user": table})}, checkpoint_id=tmp_path / "c", planner=HashSavePlanner()
    )
    state = {"w": torch.zeros(5), "tables": HashTables({"user": fresh})}
    dcp.load(state, checkpoint_id=tmp_path / "c", planner=HashLoadPlanner())
    assert torch.equal(state["w"], dense)
    assert_same_table(fresh, table)


def test_without_the_planner_it_says_so(tmp_path: Path):
    with pytest.raises(BaseException, match="planner=HashSavePlanner"):
        dcp.save({"tables": HashTables({"user": make_table()})}, checkpoint_id=tmp_path / "c")


def test_an_empty_table_is_a_checkpoint_too(tmp_path: Path):
    Checkpointer(tmp_path, {"user": make_table()}).save(0)
    fresh = make_table()
    train(fresh, 0)
    Checkpointer(tmp_path, {"user": fresh}).load()
    assert len(fresh) == 0 and fresh.step == 0


def test_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hybrid_torchrec.checkpoint.parts.PART_BYTES", 1000)
    table, fresh = make_table(), make_table()
    for step in range(5):
        train(table, step)
    path = Checkpointer(tmp_path, {"user": table}).save(5)
    metadata = dcp.FileSystemReader(path).read_metadata()
    assert sum(key.endswith(".ids") for key in metadata.state_dict_metadata) == 10
    Checkpointer(tmp_path, {"user": fresh}).load()
    assert_same_table(fresh, table)


def test_parts_that_come_in_turns():
    """As other writers may lay them out: a part keeps its memory until it is in the table."""
    table, found = make_table(), make_table()
    for step in range(6):
        train(table, step)
    rows = all_rows(table)
    leaf = TableLeaf(TableShard(found))
    for first in (0, 16, 32):
        parts = {number: rows[first + 8 * number : first + 8 * number + 8] for number in (0, 1)}
        for field in rows.named_tensors():
            for number, part in parts.items():
                key, saved = Key(0, 1, first + number, field), part.named_tensors()[field]
                buffer = leaf.buffer(key, Shape(saved.dtype, saved.shape))
                leaf.accept(key, buffer.copy_(saved))
    assert_same_rows(all_rows(found), rows[:48])


def test_another_table_is_refused_with_all_differences(tmp_path: Path):
    table = make_table("adam")
    train(table, 0)
    Checkpointer(tmp_path, {"user": table}).save(1)
    other = make_table("adagrad", dim=8)
    with pytest.raises(TableMismatch, match="dim is 6 there, 8 here; optimizer is adam there, adagrad here"):
        Checkpointer(tmp_path, {"user": other}).load()
    with pytest.raises(NoCheckpoint, match="no table 'hash_tables.item' in this checkpoint"):
        Checkpointer(tmp_path, {"item": make_table()}).load()


def test_sightings_of_another_policy_start_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    table = make_table(admission=AdmitAfter(sightings=3))
    train(table, 0)
    Checkpointer(tmp_path, {"user": table}).save(1)
    other = make_table(admission=AdmitAfter(sightings=4))
    Checkpointer(tmp_path, {"user": other}).load()
    assert "sightings start anew" in caplog.text
    assert len(other.index.sightings()[0]) == 0 < len(table.index.sightings()[0])


def test_waiting_gradients_are_refused(tmp_path: Path):
    table = make_table()
    table.update(table.assign(torch.tensor([1, 2]), train=True), torch.ones(2, 6), apply=False)
    with pytest.raises(CheckpointError, match="apply_gradients"):
        Checkpointer(tmp_path, {"user": table}).save(1)
    table.apply_gradients()
    Checkpointer(tmp_path, {"user": table}).save(1)


def test_the_torn_one_is_ignored_named_and_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    table = make_table()
    train(table, 0)
    checkpointer = Checkpointer(tmp_path, {"user": table})
    checkpointer.save(1)
    torn = tmp_path / ".saving-full-000000000002"
    torn.mkdir()
    (torn / "__0_0.distcp").write_bytes(b"half")
    (torn / UNFINISHED).touch()
    headless = tmp_path / "full-000000000003"  # a name without a manifest is no checkpoint
    headless.mkdir()
    with caplog.at_level(logging.WARNING):
        assert Checkpointer(tmp_path, {"user": make_table()}).load() == 1
    assert f"{torn}: an unfinished save" in caplog.text and str(headless) in caplog.text
    checkpointer.save(2)
    left = [".lock", "full-000000000001", "full-000000000002", headless.name]  # nothing says that it is ours
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_nothing_to_load_is_said(tmp_path: Path):
    with pytest.raises(NoCheckpoint, match="no complete checkpoint; save one first"):
        Checkpointer(tmp_path / "none", {"user": make_table()}).load()
    checkpointer = Checkpointer(tmp_path, {"user": make_table()})
    checkpointer.save(4)
    with pytest.raises(NoCheckpoint, match="no checkpoint of step 9; complete ones: 4"):
        checkpointer.load(step=9)
    with pytest.raises(CheckpointError, match="exists already"):
        checkpointer.save(4)
    with pytest.raises(CheckpointError, match="cannot save step 3: full-000000000004 went further"):
        checkpointer.save(3)


def test_the_last_n_stay(tmp_path: Path):
    checkpointer = Checkpointer(tmp_path, {"user": make_table()}, keep=2)
    for step in (10, 20, 30):
        checkpointer.save(step)
        checkpointer.save_delta(step + 1)
    assert checkpointer.steps() == [20, 21, 30, 31]
    for step in checkpointer.steps():
        assert checkpointer.load(step=step) == step


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_old_ones_cut_off_in_the_middle_of_their_removal_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
):
    table = make_table()
    checkpointer = Checkpointer(tmp_path, {"user": table}, keep=9)
    for step, save in enumerate([checkpointer.save, *[checkpointer.save_delta] * 2, checkpointer.save], 1):
        train(table, step)
        save(step)
    gone: list[Path] = []

    def cut_off(path: Path) -> None:
        if len(gone) == removed:
            raise KeyboardInterrupt
        gone.append(path)
        remove_folder(path)

    monkeypatch.setattr(folder, "remove_folder", cut_off)
    with pytest.raises(KeyboardInterrupt):
        checkpointer.folder.keep_last(1, checkpointer.folder.latest().manifest.run)
    left = sorted(int(path.name[-12:]) for path in tmp_path.iterdir() if path.is_dir())
    assert len(left) == 4 - removed
    for step in left:
        assert checkpointer.load(step=step) == step


def test_a_second_writer_waits_and_then_says_why(tmp_path: Path):
    checkpointer = Checkpointer(tmp_path, {"user": make_table()})
    checkpointer.save(1)
    with (
        checkpointer.folder.lock(),
        pytest.raises(CheckpointError, match="another save or compaction has gone on here for 0 s"),
        checkpointer.folder.lock(patience=0.0),
    ):
        pass
