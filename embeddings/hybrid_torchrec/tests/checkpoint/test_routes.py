"""Lookups find each id at the rank that holds it, whoever publishes: compared with a dict of id -> row."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
import torch
from children import without_devices
from hybrid_torchrec.checkpoint import CheckpointError, TableShard
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.serving.served import _rows
from small_tables import EDGES, make_table

Reference = dict[int, list[float]]
DIM = 3


def owner(number: int, shards: int) -> int:
    """The hash of the documentation, SplitMix64's finaliser, in plain Python."""
    x = number % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return (x ^ (x >> 31)) % shards


class Table:
    """A table on `holders`, in the order of their shares, and what is in it."""

    def __init__(self, holders: tuple[int, ...], seed: int) -> None:
        self.holders = holders
        self.parts = [make_table("sgd", dim=DIM) for _ in holders]
        self.rows: Reference = {}
        self.random = random.Random(seed)

    def put(self, ids: list[int]) -> None:
        new = {number: [float(self.random.randint(-999, 999)) for _ in range(DIM)] for number in ids}
        self.rows.update(new)
        for share, part in enumerate(self.parts):
            mine = [number for number in new if owner(number, len(self.parts)) == share]
            rows = torch.tensor([new[number] for number in mine]).reshape(-1, DIM)
            part.write(_rows(torch.tensor(mine, dtype=torch.int64), rows))

    def erase(self, ids: list[int]) -> None:
        for number in ids:
            del self.rows[number]
            self.parts[owner(number, len(self.parts))].erase(torch.tensor([number]))


def publish_on(
    root: Path, world: int, tables: Mapping[str, Table], monkeypatch: pytest.MonkeyPatch, run: str
) -> list[Publisher]:
    """Publishers of `world` ranks in this process."""
    publishers = []
    for rank in range(world):

        class Alone:
            def __init__(self, _: object = None) -> None:
                self.rank, self.world = rank, world  # noqa: B023 (used in this iteration)

            def all_reduce(self, step: str, each, one):
                result = each()
                return run if step == "name the run" else one([result])

        monkeypatch.setattr("hybrid_torchrec.serving.publisher.Collective", Alone)
        held = {
            name: TableShard(table.parts[table.holders.index(rank)], table.holders.index(rank), len(table.holders))
            for name, table in tables.items()
            if rank in table.holders
        }
        publishers.append(Publisher(root, held))
    return publishers


def assert_serves(consumer: Consumer, name: str, rows: Reference) -> None:
    ids = [*rows, 77777, -77777, 123456789123]
    random.Random(len(ids)).shuffle(ids)
    weights, found = consumer.lookup(name, torch.tensor(ids))
    assert weights.shape == (len(ids), DIM)
    assert found.tolist() == [number in rows for number in ids], name
    for number, row in zip(ids, weights.tolist(), strict=True):
        if number in rows:
            assert row == rows[number], (name, number)


def follow(consumer: Consumer) -> None:
    while consumer.poll():
        pass


def holders_of(world: int) -> dict[str, tuple[int, ...]]:
    """Every subset of the ranks: one rank is table_wise, all row_wise, a part table_row_wise and grid_shard.

    A plan names them in any order.
    """
    found = {}
    for count in range(1, world + 1):
        for ranks in combinations(range(world), count):
            order = list(ranks)
            random.Random(str(ranks)).shuffle(order)
            found["t" + "".join(map(str, ranks))] = tuple(order)
    return found


def test_all_numbers_of_publishers_and_all_subsets_of_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And from run to run the numbers change, under one consumer."""
    consumer = Consumer(tmp_path, name="c")
    for world in (1, 4, 2, 8, 3, 7, 5, 6):
        tables = {name: Table(holders, seed) for seed, (name, holders) in enumerate(holders_of(world).items())}
        for table in tables.values():
            table.put([*EDGES, *table.random.sample(range(-1000, -1), 12)])
        publishers = publish_on(tmp_path, world, tables, monkeypatch, run=f"run{world}")
        follow(consumer)
        for name, table in tables.items():
            assert_serves(consumer, name, table.rows)
            table.put([*EDGES[:2], *table.random.sample(range(2000, 3000), 7)])
            table.erase(EDGES[2:])
        for publisher in publishers:
            publisher.publish(1)
        follow(consumer)
        for name, table in tables.items():
            assert_serves(consumer, name, table.rows)
        assert consumer.status()["tables"] == {name: len(table.rows) for name, table in tables.items()}


def test_empty_shares_and_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share without a row has no file in its base."""
    table = Table((3, 1), 0)
    publishers = publish_on(tmp_path, 4, {"t": table}, monkeypatch, "run")
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    assert_serves(consumer, "t", {})
    assert consumer.lookup("t", torch.empty(0, dtype=torch.int64))[0].shape == (0, DIM)
    table.put(list(range(9)))
    for publisher in publishers:
        publisher.publish(1)
    follow(consumer)
    assert_serves(consumer, "t", table.rows)


@pytest.mark.parametrize("ids", [torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 2], dtype=torch.int32)])
@pytest.mark.parametrize("holders", [(0,), (1, 2)])
def test_ids_of_another_shape_or_type_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: torch.Tensor, holders: tuple[int, ...]
) -> None:
    publish_on(tmp_path, 3, {"t": Table(holders, 0)}, monkeypatch, "run")
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    with pytest.raises(ValueError, match=r"ids must be int64 of shape \(L,\)"):
        consumer.lookup("t", ids)


def test_names_that_begin_alike(tmp_path: Path) -> None:
    """The files of one are not taken for the other's."""
    tables = {"a": Table((0,), 1), "a.shard-b": Table((0,), 2)}
    for first, table in enumerate(tables.values()):
        table.put(list(range(first, 20, 2)))
    Publisher(tmp_path, {name: TableShard(table.parts[0]) for name, table in tables.items()})
    consumer = Consumer(tmp_path, name="c")
    follow(consumer)
    for name, table in tables.items():
        assert_serves(consumer, name, table.rows)
        others = torch.tensor(sorted({*range(20)} - table.rows.keys()))
        assert not consumer.lookup(name, others)[1].any(), name


WRONG = {
    "no rank has shard 1 of 2": [(0, 2), None],
    "shard 0 is on ranks [0, 1]": [(0, 1), (0, 1)],  # TableShard(table) on every rank
    "different divisions of the ids: 0 of 2 on rank 0, 1 of 3 on rank 1": [(0, 2), (1, 3)],
    "shard 2 is not one of 2": [(2, 2), (1, 2)],
}


@pytest.mark.parametrize("fault", WRONG)
def test_shares_that_are_not_a_table_are_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The run before it is; and where there is none, lookups say what is wrong."""
    good, bad = Table((0, 1), 0), Table((0, 1), 1)
    good.put(list(range(20)))
    bad.put(list(range(20)))
    consumers = [Consumer(tmp_path, name="new"), Consumer(tmp_path, name="old")]
    publish_on(tmp_path, 2, {"t": good}, monkeypatch, "good")
    follow(consumers[1])
    publishers = publish_on(tmp_path, 2, {"t": bad}, monkeypatch, "bad")
    for publisher, share in zip(publishers, WRONG[fault], strict=True):
        base = publisher.shard.bases()[0].path
        manifest = Manifest.read(base)
        if share is None:
            manifest.tables.pop("t")
        else:
            manifest.tables["t"]["shares"] = [list(share)]
        manifest.write(base)
    for consumer in consumers:
        for _ in range(2):
            with pytest.raises(CheckpointError, match="run bad is not served: table 't'") as refused:
                follow(consumer)
            assert fault in str(refused.value)
    assert_serves(consumers[1], "t", good.rows)
    with pytest.raises(CheckpointError, match="run bad is not served") as refused:
        consumers[0].lookup("t", torch.tensor([1]))
    assert fault in str(refused.value) and fault in str(consumers[0].status()["refused"])


def test_bases_that_do_not_say_what_they_hold_are_not_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher(tmp_path, {"t": TableShard(make_table(dim=DIM))})
    base = publisher.shard.bases()[0].path
    manifest = Manifest.read(base)
    del manifest.tables["t"]["shares"]
    manifest.write(base)
    consumer = Consumer(tmp_path, name="c")
    assert consumer.poll() == 0 and not consumer.wait_ready(0)
    assert "does not say which ids of table 't' it has; publish with the version that serves" in caplog.text


def test_a_publisher_refuses_shards_that_are_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'t': no rank has shard 0 of 2. .*table_shards\(model\)"):
        Publisher(tmp_path, {"t": TableShard(make_table(), 1, 2)})
    assert list(tmp_path.iterdir()) == []


def test_sharded_models(tmp_path: Path) -> None:
    """Every sharding type, by TorchRec's planner, on 1 to 8 ranks, one run after the other under one consumer."""
    program = Path(__file__).with_name("route_ranks.py")
    run = subprocess.run(
        [sys.executable, program, tmp_path], capture_output=True, text=True, timeout=1800, env=without_devices()
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-6000:]
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert {case["world"] for case in told} == {1, 2, 4, 8}
    by_kind = {(case["world"], case["kinds"][name]): len(on) for case in told for name, on in case["ranks"].items()}
    assert {kind for _, kind in by_kind} == {
        "row_wise",
        "table_wise",
        "column_wise",
        "table_row_wise",
        "table_column_wise",
        "grid_shard",
    }
    # These were answered wrongly: on more than one rank, but not on all.
    assert by_kind[4, "table_row_wise"] == 2 and by_kind[8, "table_row_wise"] == by_kind[8, "grid_shard"] == 4
