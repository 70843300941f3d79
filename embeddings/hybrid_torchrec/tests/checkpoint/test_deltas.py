"""Deltas: base and what changed give the table bit by bit; a chain with a gap is refused by name; compaction."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import (
    BrokenChain,
    Checkpointer,
    NoCheckpoint,
    ServingTable,
    compact,
    export_checkpoint,
)
from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.policies import AdmitAfter
from hybrid_torchrec.table import HashTable
from small_tables import EDGES, all_rows, assert_same_table, batch, make_table, train


def run(root: Path, table: HashTable, *, deltas: int, keep: int = 3, first: int = 0) -> list[HashTable]:
    """A full checkpoint at 10 and deltas at 20, 30, ...; returns copies of the table as it was at each."""
    model = torch.nn.Linear(2, 1)
    checkpointer = Checkpointer(root, {"user": table}, keep=keep)
    copies = []
    for number in range(1 + deltas):
        for step in range(3):
            train(table, first + 10 * number + step, of=400)
        if number % 2:  # ids that go, and some of them come again
            gone = table.ids().sort().values[number::5]
            table.erase(gone)
            table.update(table.assign(gone[::2], train=True), torch.ones(len(gone[::2]), table.config.dim))
            table.erase(torch.tensor(EDGES[:1]))
        torch.nn.init.constant_(model.weight, number)
        save = checkpointer.save_delta if number else checkpointer.save
        save(10 * (number + 1), {"model": model})
        copies.append(clone(table))
    return copies


def clone(table: HashTable) -> HashTable:
    copy = HashTable(table.config)
    copy.write(all_rows(table))
    for name in ("step", "updates", "insertions", "evictions"):
        setattr(copy, name, getattr(table, name))
    ids, counts = table.index.sightings()
    if len(counts):
        copy.index.set_sightings(ids, counts)
    return copy


POLICIES = [{}, {"max_rows": 70}, {"admission": AdmitAfter(sightings=2)}]


@pytest.mark.parametrize("policy", POLICIES, ids=["grows", "evicts", "admits"])
def test_every_step_of_a_chain_loads_bit_by_bit(tmp_path: Path, policy: dict[str, object]):
    copies = run(tmp_path, make_table(**policy), deltas=3)
    for number, expected in enumerate(copies):
        found, model = make_table(**policy), torch.nn.Linear(2, 1)
        step = Checkpointer(tmp_path, {"user": found}).load({"model": model}, step=10 * (number + 1))
        assert step == 10 * (number + 1)
        assert torch.equal(model.weight, torch.full((1, 2), float(number)))
        assert_same_table(found, expected)


def test_a_delta_holds_what_changed_and_no_more(tmp_path: Path):
    table = make_table()
    for step in range(20):
        train(table, step, of=400)
    checkpointer = Checkpointer(tmp_path, {"user": table})
    full_ids = table.ids()
    full = checkpointer.save(1)
    train(table, 20, ids=10)
    delta = checkpointer.save_delta(2)
    sizes = {path: sum(entry.bytes for entry in Manifest.read(path).files.values()) for path in (full, delta)}
    ids, _ = batch(20, ids=10)
    assert checkpointer.metrics.value("saved_rows") == len(full_ids) + len(ids.unique())
    assert sizes[delta] < sizes[full] / 2
    empty = checkpointer.save_delta(3)
    assert "part-" not in (empty / ".metadata").read_bytes().decode("latin1")


def test_a_delta_follows_something(tmp_path: Path):
    with pytest.raises(NoCheckpoint, match="save\\(\\) or load\\(\\) first"):
        Checkpointer(tmp_path, {"user": make_table()}).save_delta(1)


def test_training_resumed_from_a_delta_goes_on_with_deltas(tmp_path: Path):
    table = make_table(max_rows=70)
    run(tmp_path, table, deltas=2)
    resumed = make_table(max_rows=70)
    checkpointer = Checkpointer(tmp_path, {"user": resumed})
    checkpointer.load()
    for step in (100, 101):
        train(table, step)
        train(resumed, step)
    checkpointer.save_delta(40)
    again = make_table(max_rows=70)
    assert Checkpointer(tmp_path, {"user": again}).load() == 40
    assert_same_table(again, table)


def test_a_missing_delta_is_refused_by_name(tmp_path: Path):
    run(tmp_path, make_table(), deltas=3)
    shutil.move(tmp_path / "delta-000000000030", tmp_path / "elsewhere")
    fresh = make_table()
    with pytest.raises(BrokenChain, match="delta-000000000040: delta 3 follows delta-000000000030, which is missing"):
        Checkpointer(tmp_path, {"user": fresh}).load()
    assert len(fresh) == 0  # nothing was loaded on the way
    assert Checkpointer(tmp_path, {"user": fresh}).load(step=20) == 20
    shutil.move(tmp_path / "elsewhere", tmp_path / "delta-000000000030")
    assert Checkpointer(tmp_path, {"user": fresh}).load() == 40


def test_a_delta_of_another_run_is_refused_by_name(tmp_path: Path):
    for name, first in (("a", 0), ("b", 500)):
        run(tmp_path / name, make_table(), deltas=2, first=first)
    shutil.rmtree(tmp_path / "a/delta-000000000020")
    shutil.copytree(tmp_path / "b/delta-000000000020", tmp_path / "a/delta-000000000020")
    with pytest.raises(BrokenChain, match="delta-000000000020 is of another run"):
        Checkpointer(tmp_path / "a", {"user": make_table()}).load()


def test_deltas_out_of_order_are_refused_by_name(tmp_path: Path):
    run(tmp_path, make_table(), deltas=3)
    one, two = tmp_path / "delta-000000000020", tmp_path / "delta-000000000030"
    shutil.move(one, tmp_path / "x")
    shutil.move(two, one)
    shutil.move(tmp_path / "x", two)
    with pytest.raises(BrokenChain, match="delta-000000000030"):
        Checkpointer(tmp_path, {"user": make_table()}).load()


@pytest.mark.parametrize("policy", POLICIES, ids=["grows", "evicts", "admits"])
def test_compaction_gives_the_same_table_and_the_chain_goes_on(
    tmp_path: Path, policy: dict[str, object], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hybrid_torchrec.checkpoint.parts.PART_BYTES", 2000)
    table = make_table(**policy)
    copies = run(tmp_path, table, deltas=3)
    assert compact(tmp_path, step=30).name == "full-000000000030"
    for step in ("full-000000000010", "delta-000000000020", "delta-000000000030"):
        shutil.rmtree(tmp_path / step)  # as keep=1 would
    for step, expected in ((30, copies[2]), (40, copies[3])):  # the delta at 40 followed the one at 30
        found, model = make_table(**policy), torch.nn.Linear(2, 1)
        assert Checkpointer(tmp_path, {"user": found}).load({"model": model}, step=step) == step
        assert_same_table(found, expected)
        assert torch.equal(model.weight, torch.full((1, 2), step / 10.0 - 1))
    assert compact(tmp_path) == compact(tmp_path) == tmp_path / "full-000000000040"


def test_compaction_and_retention_keep_every_chain_whole(tmp_path: Path):
    table = make_table()
    checkpointer = Checkpointer(tmp_path, {"user": table}, keep=1)
    checkpointer.save(1)
    for step in range(2, 8):
        train(table, step)
        checkpointer.save_delta(step)
        if step % 3 == 0:
            compact(tmp_path)
            checkpointer.remove_old()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".lock", "delta-000000000007", "full-000000000006"]
    fresh = make_table()
    Checkpointer(tmp_path, {"user": fresh}).load()
    assert_same_table(fresh, table)


def test_each_reader_is_told_of_erased_ids():
    table = make_table()
    first, second = ChangeReader(table), ChangeReader(table)
    train(table, 0)
    for reader in (first, second):
        reader.commit(reader.mark())
    gone = table.ids()[10:20]
    table.erase(gone)
    for _ in range(2):  # first is ahead, and what it knows is forgotten
        rows, _, mark = first.peek()
        first.commit(mark)
        train(table, 1)
    for reader, told in ((second, gone), (first, gone[:0])):
        erased = reader.peek()[1]
        assert erased.sort().values.equal(told[~torch.isin(told, table.ids())].sort().values)


def test_export_of_a_chain(tmp_path: Path):
    expected = run(tmp_path / "c", make_table(), deltas=2)[-1]
    served = ServingTable(export_checkpoint(tmp_path / "c", tmp_path / "e"), "user")
    assert torch.equal(served.ids(), all_rows(expected).ids)
    rows, found = served.lookup(all_rows(expected).ids)
    assert bool(found.all()) and torch.equal(rows, all_rows(expected).weights)
