"""A save in the background holds the state at its call, whatever training does meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import Checkpointer, TableShard
from hybrid_torchrec.checkpoint.checkpointer import staged_copy
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.table import HashTable, RowBatch
from small_tables import all_rows, assert_same_rows, assert_same_table, batch, make_table, train


def change_everything(table: HashTable, step: int) -> None:
    train(table, step, of=400)
    ids = table.ids()
    table.erase(ids[step % 3 :: 7])
    table.add_clicks(ids[:5], torch.ones(5))
    rows = table.read(ids[5:9])[0]
    table.write(RowBatch.from_named_tensors({**rows.named_tensors(), "weights": rows.weights + step}))
    table.assign(batch(step + 1000, of=400)[0], train=True)


@pytest.mark.parametrize("policy", [{}, {"max_rows": 150}], ids=["grows", "evicts"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_changes_between_any_two_parts_are_not_seen(policy: dict[str, object], rows: int):
    """Exhaustively: changes of every kind before the first part and after each."""
    table = make_table(**policy)
    for step in range(8):
        train(table, step, of=400)
    expected, scalars = all_rows(table), (table.step, table.updates)
    snapshot = Snapshot(TableShard(table))
    source = snapshot.rows
    assert source.count == len(expected)
    parts = []
    for first in range(0, source.count, rows):
        change_everything(table, 50 + first)
        parts.append(source.read(first, min(first + rows, source.count)))
    assert_same_rows(RowBatch.concat(parts), expected)
    assert (source.info["step"], source.info["updates"]) == scalars
    snapshot.release()
    assert table.before_change == []


def test_saving_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hybrid_torchrec.checkpoint.parts.PART_BYTES", 4000)
    table, model = make_table(max_rows=300), torch.nn.Linear(3, 1)
    for step in range(10):
        train(table, step, of=600)
    at_call, weight = all_rows(table), model.weight.detach().clone()
    checkpointer = Checkpointer(tmp_path, {"user": table})
    pending = checkpointer.save_async(10, {"model": model})
    steps = 0
    while not pending.done() or steps < 5:
        change_everything(table, 100 + steps)
        with torch.no_grad():
            model.weight.add_(1.0)
        steps += 1
    assert pending.wait(60).name == "full-000000000010"
    found, other = make_table(max_rows=300), torch.nn.Linear(3, 1)
    Checkpointer(tmp_path, {"user": found}).load({"model": other})
    assert_same_rows(all_rows(found), at_call)
    assert torch.equal(other.weight, weight)
    # What changed meanwhile is in the next delta.
    checkpointer.save_delta(11)
    Checkpointer(tmp_path, {"user": found}).load()
    assert_same_table(found, table)


def test_training_never_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The writer is stopped in the middle of a part: training steps go on."""
    table = make_table()
    for step in range(5):
        train(table, step)
    reached, go_on = threading.Event(), threading.Event()
    write = torch.save

    def slow(*arguments: object, **named: object) -> None:
        reached.set()
        assert go_on.wait(60)
        write(*arguments, **named)

    monkeypatch.setattr("torch.distributed.checkpoint.filesystem.torch.save", slow)
    pending = Checkpointer(tmp_path, {"user": table}).save_async(5)
    assert reached.wait(60)
    before = table.step
    for step in range(5, 10):
        train(table, step)
    assert table.step == before + 5 and not pending.done()
    go_on.set()
    pending.wait(60)


def test_a_save_that_fails_in_the_background_is_told_and_ends_the_snapshot(tmp_path: Path):
    table = make_table()
    train(table, 0)
    (tmp_path / "file").write_text("")
    checkpointer = Checkpointer(tmp_path / "file", {"user": table})
    pending = checkpointer.save_async(1)
    with pytest.raises(Exception, match="file"):
        pending.wait(60)
    assert table.before_change == []
    with pytest.raises(Exception, match="file"):
        checkpointer.save(2)


def test_staged_tensors_are_copies_also_on_the_cpu():
    weight = torch.ones(2)
    staged = staged_copy({"a": [weight, {"b": weight}], "n": 3})
    weight.add_(1)
    assert torch.equal(staged["a"][0], torch.ones(2)) and torch.equal(staged["a"][1]["b"], torch.ones(2))
