"""The delta stream: a consumer has the trainer's rows, through restarts, gaps and damage."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import CheckpointError, CorruptCheckpoint, TableShard
from hybrid_torchrec.serving import Changes, Consumer, Publisher, Record
from hybrid_torchrec.table import HashTable
from small_tables import EDGES, all_rows, make_table, train


def assert_serves(consumer: Consumer, table: HashTable, name: str = "user", tolerance: float = 0.0) -> None:
    absent = torch.tensor([123456789, -9])
    ids = torch.cat([absent, all_rows(table).ids, torch.tensor(EDGES)])
    weights, found = consumer.lookup(name, ids)
    slots = table.find(ids)
    assert torch.equal(found, slots >= 0)
    assert torch.allclose(weights, table.lookup(slots.clamp(min=0)), rtol=tolerance, atol=tolerance)


def follow(consumer: Consumer) -> None:
    while consumer.poll():
        pass


def test_every_record_brings_the_consumer_up_to_date(tmp_path: Path):
    tables = {"user": make_table(max_rows=90), "item": make_table("sgd", torch.float16, name="item")}
    for table in tables.values():
        train(table, 0)
    publisher = Publisher(tmp_path, {name: TableShard(table) for name, table in tables.items()})
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    for step in range(1, 9):
        for table in tables.values():
            train(table, step, of=300)
            table.erase(table.ids()[::11])
        record = publisher.publish(step)
        assert record.sequence == step
        follow(consumer)
        for name, table in tables.items():
            assert_serves(consumer, table, name)
    assert consumer.status()["shards"] == [{"sequence": 8, "step": 8, "waits_for_base": ""}]
    assert consumer.metrics.value("applied_records") == 8
    with pytest.raises(KeyError, match="no table 'x'; there are: item, user"):
        consumer.lookup("x", torch.tensor([1]))


def test_a_record_holds_what_changed_and_no_more(tmp_path: Path):
    table = make_table()
    for step in range(5):
        train(table, step)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    assert publisher.publish(5).rows == 0
    table.update(table.assign(torch.tensor([5, 6]), train=True), torch.ones(2, 6))
    table.erase(torch.tensor([0, 6]))
    changes = publisher.publish(6).tables["user"]
    assert changes.ids.tolist() == [5] and sorted(changes.erased.tolist()) == [0, 6]


def test_latency_is_from_the_rows_state_to_their_being_served(tmp_path: Path):
    table = make_table()
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    train(table, 0)
    begin = time.time()
    publisher.publish(0)
    time.sleep(0.3)  # the server looks late
    follow(consumer)
    assert 0.3 <= consumer.metrics.value("record_latency_seconds") <= time.time() - begin


def test_a_consumer_that_restarts_needs_nothing_of_its_own(tmp_path: Path):
    table = make_table()
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    for step in range(5):
        train(table, step)
        publisher.publish(step)
    consumer = Consumer(tmp_path, name="again")
    follow(consumer)
    assert_serves(consumer, table)


def test_before_the_first_base_it_says_so(tmp_path: Path):
    consumer = Consumer(tmp_path / "nothing", name="c")
    assert consumer.poll() == 0
    with pytest.raises(CheckpointError, match="no base yet"):
        consumer.lookup("user", torch.tensor([1]))


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "empty", "of another run"])
def test_a_gap_is_noticed_served_around_and_closed(tmp_path: Path, damage: str):
    table = make_table()
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    train(table, 0)
    publisher.publish(0)
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    before = all_rows(table)
    train(table, 1)
    publisher.publish(1)
    train(table, 2)
    publisher.publish(2)
    path = publisher.shard.record(2)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "of another run":
        path.write_bytes(Record("other", 2, 1, Record.decode(data, "").tables).encode())
    else:
        changed = {"flipped": data[:100] + bytes([data[100] ^ 4]) + data[101:], "cut": data[:-3], "empty": b""}
        path.write_bytes(changed[damage])
    follow(consumer)
    assert torch.equal(consumer.lookup("user", before.ids)[0], before.weights)  # the last good state
    assert consumer.status()["shards"][0]["waits_for_base"]
    assert consumer.metrics.value("gaps") == 1
    train(table, 3)
    publisher.publish(3)  # sees the request
    follow(consumer)
    assert_serves(consumer, table)
    assert publisher.shard.requests() == [] and consumer.status()["shards"][0]["waits_for_base"] == ""
    train(table, 4)
    publisher.publish(4)
    follow(consumer)
    assert_serves(consumer, table)


def test_a_consumer_that_slept_past_the_records_takes_the_base(tmp_path: Path):
    table = make_table()
    publisher = Publisher(tmp_path, {"user": TableShard(table)}, keep=1)
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    for step in range(4):
        train(table, step)
        publisher.publish(step)
    publisher.publish_base(4)
    assert publisher.shard.sequences() == [5] or publisher.shard.sequences() == []
    follow(consumer)
    assert_serves(consumer, table)
    assert len(publisher.shard.bases()) == 1


def test_a_damaged_base_is_not_served(tmp_path: Path):
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    file = next(publisher.shard.bases()[0].path.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    assert not consumer.wait_ready(0)
    publisher.publish(1)
    follow(consumer)
    assert_serves(consumer, table)


def test_trainers_that_come_back_from_a_checkpoint_start_a_new_run(tmp_path: Path):
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    train(table, 1)
    publisher.publish(1)
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    # Step 1 is lost, and ids that only it had must go from the server.
    back = make_table()
    train(back, 0)
    second = Publisher(tmp_path, {"user": TableShard(back)})
    follow(consumer)
    assert_serves(consumer, back)
    assert not consumer.lookup("user", torch.tensor([i for i in table.ids().tolist() if i not in back.ids()]))[1].any()
    Publisher(tmp_path, {"user": TableShard(back)})
    assert not publisher.shard.path.exists() and second.shard.path.exists()  # one run back is kept


def test_shards_of_many_ranks_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, shards = make_table(), [TableShard(make_table(), rank, 3) for rank in range(3)]
    alone = TableShard(make_table(name="small"))

    def step_of(step: int) -> None:
        train(whole, step)
        train(alone.table, step)
        for shard in shards:
            train(shard.table, step, owns=shard.owns)

    step_of(0)
    publishers = [publisher_of(tmp_path, monkeypatch, rank, {"user": shards[rank]}) for rank in range(2)]
    publishers.append(publisher_of(tmp_path, monkeypatch, 2, {"user": shards[2], "small": alone}))
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    for step in range(1, 4):
        step_of(step)
        for publisher in publishers:
            publisher.publish(step)
        follow(consumer)
        assert_serves(consumer, whole, tolerance=1e-6)
        assert_serves(consumer, alone.table, "small")
    assert consumer.status()["tables"] == {"user": len(whole), "small": len(alone.table)}


def publisher_of(root: Path, monkeypatch: pytest.MonkeyPatch, rank: int, tables: dict[str, TableShard]) -> Publisher:
    """The publisher of one of three ranks, in this process."""

    class Alone:
        def __init__(self, _: object = None) -> None:
            self.rank, self.world = rank, 3

        def all_reduce(self, step: str, each, one):
            result = each()
            return "run" if step == "name the run" else one([result])

    monkeypatch.setattr("hybrid_torchrec.serving.publisher.Collective", Alone)
    return Publisher(root, tables)


def test_half_the_bytes_on_request(tmp_path: Path):
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)}, dtype="float16")
    consumer = Consumer(tmp_path, name="c")
    train(table, 1)
    assert publisher.publish(1).tables["user"].weights.dtype == torch.float16
    follow(consumer)
    assert_serves(consumer, table, tolerance=2e-3)


def test_records_are_exact_and_refuse_damage():
    ids = torch.tensor(EDGES)
    changed = Changes(ids, torch.randn(4, 2).bfloat16(), torch.tensor([8]))
    gone = Changes(torch.empty(0, dtype=torch.int64), torch.empty(0, 5), ids.clone())
    record = Record("run", 7, 3, {"a.b": changed, "c": gone})
    data = record.encode()
    back = Record.decode(data, "here")
    assert (back.run, back.sequence, back.step, back.created) == ("run", 7, 3, record.created)
    for name, changes in record.tables.items():
        for part in ("ids", "weights", "erased"):
            assert torch.equal(getattr(back.tables[name], part), getattr(changes, part))
    for place in range(0, len(data), 7):
        broken = bytearray(data)
        broken[place] ^= 0x10
        with pytest.raises(CorruptCheckpoint, match="here"):
            Record.decode(bytes(broken), "here")
    for length in range(0, len(data), 13):
        with pytest.raises(CorruptCheckpoint, match="here"):
            Record.decode(data[:length], "here")
