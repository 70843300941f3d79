"""Cached tables in checkpoints, deltas, exports and the stream, against resident ones trained on the same batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import kill_report
import pytest
import torch
from cached_tables import cached_table
from hybrid_torchrec.checkpoint import (
    Checkpointer,
    CheckpointError,
    HashLoadPlanner,
    HashSavePlanner,
    HashTables,
    ServingTable,
    TableShard,
    compact,
    export,
    export_checkpoint,
)
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.optimizers import KINDS
from hybrid_torchrec.policies import AdmitAfter
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.table import HashTable, RowBatch
from rows import assert_used_disk, let_writes_end
from small_tables import all_rows, assert_same_rows, batch, make_table, train
from torch.distributed import checkpoint as dcp
from torchrec_embcache import CachedTable

PROGRAM = Path(__file__).with_name("cached_tables.py")
OF = 400  # ids in all, of which the device has room for 45


def both(tmp_path: Path, kind: str = "adam", **kept: object) -> tuple[CachedTable, HashTable]:
    return cached_table(kind, folder=tmp_path / "rows", **kept), make_table(kind, **kept)  # type: ignore[arg-type]


def train_all(tables: tuple[HashTable, ...], first: int, last: int) -> None:
    for step in range(first, last):
        for table in tables:
            if isinstance(table, CachedTable):
                table.prefetch(batch(step, of=OF)[0])
            train(table, step, of=OF)
        if step % 4 == 3:
            for table in tables:
                if isinstance(table, CachedTable):
                    let_writes_end(table)


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_as_if_never_stopped(tmp_path: Path, kind: str) -> None:
    """From cached to cached and to resident, and from resident to cached."""
    cached, resident = both(tmp_path, kind)
    train_all((cached, resident), 0, 8)
    assert len(cached) > 3 * cached.cache.cache_rows
    assert_used_disk(cached, 20)
    Checkpointer(tmp_path / "c", {"user": cached}).save(8)
    Checkpointer(tmp_path / "r", {"user": resident}).save(8)
    train_all((cached, resident), 8, 12)
    for source, target in (("c", "cached"), ("c", "resident"), ("r", "cached")):
        resumed = make_table(kind) if target == "resident" else cached_table(kind, folder=tmp_path / source / "rows")
        train(resumed, 99, of=OF)  # what is in the table before a load goes
        assert Checkpointer(tmp_path / source, {"user": resumed}).load() == 8
        train_all((resumed,), 8, 12)
        assert_same_rows(all_rows(resumed), all_rows(resident))
        assert (resumed.step, resumed.updates) == (resident.step, resident.updates)


def test_sightings_are_saved(tmp_path: Path) -> None:
    cached, resident = both(tmp_path, admission=AdmitAfter(sightings=3))
    train_all((cached, resident), 0, 10)
    checkpointer = Checkpointer(tmp_path / "c", {"user": cached})
    checkpointer.save(10)
    resumed = cached_table(folder=tmp_path / "again", admission=AdmitAfter(sightings=3))
    Checkpointer(tmp_path / "c", {"user": resumed}).load()
    train_all((resumed, resident), 10, 16)
    assert_same_rows(all_rows(resumed), all_rows(resident))


def test_a_chain_of_deltas(tmp_path: Path) -> None:
    """Rows that changed and left the device, erased ids, rows and clicks that were written below; and compaction."""
    cached, resident = both(tmp_path)
    checkpointer = Checkpointer(tmp_path / "c", {"user": cached})
    train_all((cached, resident), 0, 6)
    checkpointer.save(1)
    sizes = []
    for round_ in range(2, 7):
        train_all((cached, resident), 4 * round_, 4 * round_ + 2)
        ids = resident.ids().sort().values
        rows = resident.read(ids[round_::19])[0]
        rows = RowBatch.from_named_tensors({**rows.named_tensors(), "weights": rows.weights + round_})
        clicked = torch.cat([ids[::5], ids[::5], torch.tensor([77])])
        for table in (cached, resident):
            table.erase(ids[round_::13])
            table.write(rows)
            table.add_clicks(clicked, torch.ones(len(clicked)))
        checkpointer.save_delta(round_)
        sizes.append(cached.device_rows)
        for table in (make_table(), cached_table(folder=tmp_path / f"loaded-{round_}")):
            assert Checkpointer(tmp_path / "c", {"user": table}).load() == round_
            assert_same_rows(all_rows(table), all_rows(resident))
    assert max(sizes) <= 45 < len(resident)
    compact(tmp_path / "c")
    last = make_table()
    Checkpointer(tmp_path / "c", {"user": last}).load()
    assert_same_rows(all_rows(last), all_rows(resident))


def test_a_delta_has_what_changed_and_no_more(tmp_path: Path) -> None:
    cached, _ = both(tmp_path)
    train_all((cached,), 0, 8)
    publisher = Publisher(tmp_path / "stream", {"user": TableShard(cached)})
    assert publisher.publish(8).rows == 0
    train(cached, 8, of=OF)
    changed = publisher.publish(9).tables["user"]
    assert set(changed.ids.tolist()) >= set(batch(8, of=OF)[0].tolist()) and not len(changed.erased)
    # Rows that left the device for these are in it too, though nothing of them changed; no others.
    assert len(changed.ids) <= 2 * 40


def change_everything(table: HashTable, step: int) -> None:
    ids = table.ids().sort().values
    table.erase(ids[step % 3 :: 29])
    table.add_clicks(ids[:5], torch.ones(5))
    rows = table.read(ids[7::31])[0]
    table.write(RowBatch.from_named_tensors({**rows.named_tensors(), "weights": rows.weights + step}))
    train(table, step, of=OF)
    if isinstance(table, CachedTable):
        table.assign(batch(step + 500, of=OF)[0], train=False)
        if step % 2:
            table.flush()


@pytest.mark.parametrize("rows", [1, 7, 60, 1000])
@pytest.mark.parametrize("disk", [True, False])
def test_changes_between_any_two_parts_are_not_seen(
    tmp_path: Path, disk: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of every kind before the first part and after each; rows come, go, spill, and slabs are compacted."""
    monkeypatch.setattr("torchrec_embcache.tier_snapshot.CHUNK", 16)
    table = cached_table(folder=tmp_path / "rows" if disk else None)
    train_all((table,), 0, 10)
    expected = all_rows(table)
    snapshot = Snapshot(TableShard(table))
    source = snapshot.rows
    assert source.count == len(expected) > 3 * 45
    parts = []
    for first in range(0, source.count, rows):
        if rows > 1 or first % 5 == 0:
            change_everything(table, 50 + first)
        parts.append(source.read(first, min(first + rows, source.count)))
    assert_same_rows(RowBatch.concat(parts), expected)
    snapshot.release()
    assert table.before_change == [] and table._tiers.snapshots == []
    table.close()


def test_saving_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchrec_embcache.tier_snapshot.CHUNK", 16)
    monkeypatch.setattr("hybrid_torchrec.checkpoint.parts.PART_BYTES", 2000)
    cached, resident = both(tmp_path)
    train_all((cached, resident), 0, 10)
    at_call = all_rows(resident)
    checkpointer = Checkpointer(tmp_path / "c", {"user": cached})
    pending = checkpointer.save_async(10)
    step = 10
    while not pending.done() or step < 15:
        train_all((cached, resident), step, step + 1)
        step += 1
    pending.wait(60)
    found = make_table()
    Checkpointer(tmp_path / "c", {"user": found}).load()
    assert_same_rows(all_rows(found), at_call)
    checkpointer.save_delta(11)  # what changed meanwhile
    Checkpointer(tmp_path / "c", {"user": found}).load()
    assert_same_rows(all_rows(found), all_rows(resident))


def test_a_table_that_others_change_during_a_save_is_refused(tmp_path: Path) -> None:
    cached, _ = both(tmp_path)
    train_all((cached,), 0, 6)
    cached._tiers.count += 1  # as if a row was lost
    with pytest.raises(BaseException, match="rows are to be saved and .* were found"):
        Checkpointer(tmp_path / "c", {"user": cached}).save(1)
    assert Checkpointer(tmp_path / "c", {"user": make_table()}).steps() == []


def test_export_plain_dcp_and_stream(tmp_path: Path) -> None:
    cached, resident = both(tmp_path)
    train_all((cached, resident), 0, 6)
    publisher = Publisher(tmp_path / "stream", {"user": TableShard(cached)})
    train_all((cached, resident), 6, 10)
    gone = resident.ids()[::7]
    for table in (cached, resident):
        table.erase(gone)
    publisher.publish(1)
    expected = all_rows(resident)
    consumer = Consumer(tmp_path / "stream", name="c")
    while consumer.poll():
        pass
    weights, found = consumer.lookup("user", torch.cat([expected.ids, gone]))
    assert found.tolist() == [True] * len(expected) + [False] * len(gone)
    assert torch.equal(weights[found], expected.weights)
    Checkpointer(tmp_path / "c", {"user": cached}).save(1)
    for path in (
        export(tmp_path / "e", 1, {"user": TableShard(cached)}),
        export_checkpoint(tmp_path / "c", tmp_path / "f"),
    ):
        served = ServingTable(path, "user")
        assert len(served) == len(expected) and torch.equal(served.lookup(expected.ids)[0], expected.weights)
    dcp.save({"t": HashTables({"user": cached})}, checkpoint_id=tmp_path / "d", planner=HashSavePlanner())
    fresh = make_table()
    dcp.load({"t": HashTables({"user": fresh})}, checkpoint_id=tmp_path / "d", planner=HashLoadPlanner())
    assert_same_rows(all_rows(fresh), expected)


def test_waiting_gradients_are_refused(tmp_path: Path) -> None:
    cached, _ = both(tmp_path)
    cached.update(cached.assign(torch.tensor([1, 2]), train=True), torch.ones(2, 6), apply=False)
    with pytest.raises(CheckpointError, match="apply_gradients"):
        Checkpointer(tmp_path / "c", {"user": cached}).save(1)


def run_program(*arguments: object) -> list[str]:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    argv = [sys.executable, str(PROGRAM), *map(str, arguments)]
    run = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=1800)
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-4000:]
    return run.stdout.splitlines()


def test_resharding_between_processes(tmp_path: Path) -> None:
    assert run_program("ranks", tmp_path) == ["4 to 2: ok", "2 to 8: ok"]


def test_sharded_models(tmp_path: Path) -> None:
    """Of two ranks, by rows, tables and columns: loaded by two, trained on, and loaded by three."""
    assert len(run_program("models", tmp_path)) == 2


def killed(tmp_path: Path, first: int, count: int) -> tuple[dict[str, int], list[dict[str, int]]]:
    whole, *results = map(json.loads, run_program("kills", tmp_path, first, count))
    assert whole["loaded"] == 9 and len(results) == count  # each of them was killed: see fault_kills.py
    return whole, results


def test_kills_lose_nothing_that_was_committed(tmp_path: Path) -> None:
    _, results = killed(tmp_path, 0, 10)
    assert len({result["saved"] for result in results}) > 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3000, 3200, kill_report.PIECE))
def test_two_hundred_kills(tmp_path: Path, first: int) -> None:
    whole, results = killed(tmp_path, first, kill_report.PIECE)
    assert len({result["saved"] for result in results}) > 5 and any(result["torn"] for result in results)
    kill_report.add(whole, results)
