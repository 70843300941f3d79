"""Sharded models whose ranks publish, and a consumer of all of them; run by test_routes.py: route_ranks.py FOLDER

Prints, of each number of ranks and sharding, which ranks have each table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from children import one_thread, ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

from hybrid_torchrec.checkpoint.models import table_shards  # noqa: E402
from hybrid_torchrec.serving import Consumer, Publisher  # noqa: E402
from model_ranks import new_model, optimizer_of, train  # noqa: E402
from sharded_program import SHARDINGS  # noqa: E402
from small_tables import all_rows  # noqa: E402

CASES = ((4, "nodes"), (2, "mixed"), (8, "nodes"), (8, "mixed"), (1, "nodes"), (4, "mixed"), (2, "nodes"))
STEPS = 3
Rows = dict[int, list[float]]


def publish(root: Path, world: int, sharding: str) -> None:
    """Trains and publishes; then each rank tells the rows that it has, in a file of its own."""
    name = f"bags.rowwise_adagrad.{sharding}.{STEPS}"

    def work(rank: int) -> None:
        model = new_model(name, world)
        optimizer = optimizer_of(model)
        train(model, optimizer, 0, 1, rank, world)
        shards = table_shards(model)
        publisher = Publisher(root / "stream", shards)
        for step in range(1, STEPS):
            train(model, optimizer, step, step + 1, rank, world)
            publisher.publish(step)
        held = {}
        for table, shard in shards.items():
            rows = all_rows(shard.table)
            held[table] = dict(zip(map(str, rows.ids.tolist()), rows.weights.tolist(), strict=True))
        (root / f"held-{rank}.json").write_text(json.dumps(held))
        dist.barrier()

    assert ranks(world, str(root), work) == [0] * world


def reference(root: Path, world: int) -> tuple[dict[str, Rows], dict[str, list[int]]]:
    """{table: {id: row}} over all ranks, and the ranks of each table."""
    rows: dict[str, Rows] = {}
    on: dict[str, list[int]] = {}
    for rank in range(world):
        for table, held in json.loads((root / f"held-{rank}.json").read_text()).items():
            on.setdefault(table, []).append(rank)
            for number, row in held.items():
                assert int(number) not in rows.setdefault(table, {}), (table, number)
                rows[table][int(number)] = row
    return rows, on


def main(root: Path) -> None:
    one_thread()
    consumer = Consumer(root / "stream", name="c")
    for world, sharding in CASES:
        publish(root, world, sharding)
        while consumer.poll():
            pass
        expected, on = reference(root, world)
        for table, rows in expected.items():
            ids = [*rows, 4, 5, -6]
            weights, found = consumer.lookup(table, torch.tensor(ids))
            assert found.tolist() == [number in rows for number in ids], (world, sharding, table)
            for number, row in zip(ids, weights.tolist(), strict=True):
                assert number not in rows or row == rows[number], (world, sharding, table, number)
        assert consumer.status()["tables"] == {table: len(rows) for table, rows in expected.items()}
        kinds = {table: SHARDINGS[sharding][int(table.split(".t")[1][0])] for table in expected}
        print(json.dumps({"world": world, "kinds": kinds, "ranks": on}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
