"""Tables in the memory of a device: saved there and loaded on the CPU, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import Checkpointer, ServingTable, TableShard, export
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.table import RowBatch
from small_tables import all_rows, assert_same_rows, assert_same_table, make_table, train


@pytest.mark.parametrize("kind", ["adam", "rowwise_adagrad"])
def test_a_chain_goes_from_a_device_to_the_cpu_and_back(tmp_path: Path, device: str, kind: str):
    model = torch.nn.Linear(3, 2).to(device)
    table = make_table(kind, max_rows=70, device=device)
    checkpointer = Checkpointer(tmp_path, {"user": table})
    train(table, 0)
    checkpointer.save(1, {"model": model})
    train(table, 1, of=300)
    pending = checkpointer.save_async(2, {"model": model})
    train(table, 2, of=300)
    pending.wait()
    checkpointer.save_delta(3, {"model": model})
    for target in ("cpu", device):
        found, other = make_table(kind, max_rows=70, device=target), torch.nn.Linear(3, 2).to(target)
        assert Checkpointer(tmp_path, {"user": found}).load({"model": other}) == 3
        assert_same_table(found, table)
        assert torch.equal(other.weight.cpu(), model.weight.cpu()) and other.weight.device.type == target.split(":")[0]


def test_a_snapshot_of_a_table_that_trains(device: str):
    table = make_table(device=device)
    for step in range(4):
        train(table, step)
    expected = all_rows(table)
    snapshot = Snapshot(TableShard(table))
    parts = []
    for first in range(0, len(expected), 20):
        train(table, 10 + first)
        table.erase(table.ids()[::5])
        parts.append(snapshot.rows.read(first, min(first + 20, len(expected))))
    assert_same_rows(RowBatch.concat(parts), expected)


def test_export_and_stream(tmp_path: Path, device: str):
    table = make_table(device=device)
    train(table, 0)
    publisher = Publisher(tmp_path / "stream", {"user": TableShard(table)})
    train(table, 1)
    publisher.publish(1)
    consumer = Consumer(tmp_path / "stream", name="c")
    while consumer.poll():
        pass
    rows = all_rows(table)
    assert torch.equal(consumer.lookup("user", rows.ids)[0], rows.weights)
    served = ServingTable(export(tmp_path / "e", 1, {"user": TableShard(table)}), "user")
    assert torch.equal(served.lookup(rows.ids)[0], rows.weights)
