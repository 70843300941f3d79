"""Checkpoints of tables whose ids are on a GPU."""

import torch
from hybrid_torchrec import OptimizerSpec, TableConfig
from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.checkpoint.tables import TableShard
from interpreted import DeviceTable

EXTREMES = torch.tensor([0, -1, 1, 2**63 - 1, -(2**63), 2**32, -(2**31)])


def test_snapshot_while_training_goes_on() -> None:
    spec = OptimizerSpec(kind="adagrad")
    table = DeviceTable(TableConfig(name="t", dim=4, initial_capacity=4, optimizer=spec))
    slots = table.assign(EXTREMES, train=True)
    before, _ = table.read(EXTREMES)
    snapshot = Snapshot(TableShard(table))
    table.update(slots, torch.ones(7, 4, device=table.device))
    table.erase(EXTREMES[:2])
    saved = snapshot.rows.read(0, 7)
    snapshot.release()
    assert torch.equal(saved.ids, EXTREMES) and torch.equal(saved.weights, before.weights.cpu())


def test_changes_for_a_stream() -> None:
    table = DeviceTable(TableConfig(name="t", dim=4))
    reader = ChangeReader(table)
    slots = table.assign(EXTREMES, train=True)
    rows, erased, mark = reader.peek()
    assert set(rows.ids.tolist()) == set(EXTREMES.tolist()) and erased.tolist() == []
    reader.commit(mark)
    table.update(slots[:2], torch.ones(2, 4, device=table.device))
    table.assign(EXTREMES[2:4], train=True)
    table.erase(EXTREMES[3:5])
    rows, erased, _ = reader.peek()
    assert set(rows.ids.tolist()) == set(EXTREMES[:3].tolist())
    assert erased.device.type == "cpu" and set(erased.tolist()) == set(EXTREMES[3:5].tolist())
