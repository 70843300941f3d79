"""Saves on some numbers of ranks and loads on others; run by test_reshard.py: reshard_ranks.py FOLDER"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from children import one_thread, ranks
from hybrid_torchrec.checkpoint import Checkpointer, CorruptCheckpoint, ServingTable, TableShard, compact, export
from hybrid_torchrec.checkpoint.storage import ManifestWriter
from hybrid_torchrec.policies import AdmitAfter
from hybrid_torchrec.table import HashTable
from small_tables import all_rows, assert_same_rows, make_table, train

POLICY = {"admission": AdmitAfter(sightings=2)}
STEPS = 6


def trained(shard: int, shards: int, steps: int, table: HashTable | None = None, first: int = 0) -> TableShard:
    part = TableShard(table or make_table("adam", **POLICY), shard, shards)
    for step in range(first, steps):
        train(part.table, step, owns=part.owns, of=300)
    return part


def whole(steps: int) -> HashTable:
    return trained(0, 1, steps).table


def small(rank: int) -> dict[str, TableShard]:
    """A table that is on rank 1 alone, or on rank 0 if there is no other."""
    return {"small": trained(0, 1, STEPS)} if rank == min(1, dist.get_world_size() - 1) else {}


def save(root: Path, world: int) -> None:
    """A full checkpoint at 4 and a delta at STEPS."""

    def work(rank: int) -> None:
        model = torch.nn.Linear(3, 2)
        torch.nn.init.constant_(model.weight, 5.0)
        part = trained(rank, world, 4)
        checkpointer = Checkpointer(root, {"user": part, **small(rank)})
        checkpointer.save_async(4, {"model": model}).wait()
        trained(rank, world, STEPS, part.table, first=4)
        if rank == 0:
            part.table.erase(part.table.ids().sort().values[:3])
        checkpointer.save_delta(STEPS, {"model": model})

    assert ranks(world, str(root.parent), work) == [0] * world


def erased_by_first(shards: int) -> torch.Tensor:
    """Ids that rank 0 of `shards` has erased before the delta."""
    return trained(0, shards, STEPS).table.ids().sort().values[:3]


def load(root: Path, world: int, expected: HashTable, erased: torch.Tensor) -> None:
    def work(rank: int) -> None:
        model, part = torch.nn.Linear(3, 2), TableShard(make_table("adam", **POLICY), rank, world)
        where = {"small": TableShard(make_table("adam", **POLICY))} if rank == 0 else {}
        checkpointer = Checkpointer(root, {"user": part, **where})
        assert checkpointer.load({"model": model}) == STEPS
        assert bool((model.weight == 5.0).all())
        rows = all_rows(expected)
        mine = part.owns(rows.ids) & ~torch.isin(rows.ids, erased)
        assert_same_rows(all_rows(part.table), rows.select(mine))
        assert part.table.step == expected.step and part.table.updates == expected.updates
        ids, counts = expected.index.sightings()
        kept = part.owns(ids)
        found = part.table.index.sightings()
        assert torch.equal(found[0], ids[kept]) and torch.equal(found[1], counts[kept])
        for table in where.values():
            assert_same_rows(all_rows(table.table), all_rows(trained(0, 1, STEPS).table))
        # Training and deltas go on on the new number of ranks.
        trained(rank, world, STEPS + 1, part.table, first=STEPS)
        checkpointer.save_delta(STEPS + 1, {"model": model})
        again = TableShard(make_table("adam", **POLICY), rank, world)
        Checkpointer(root, {"user": again, **where}).load({"model": model})
        assert_same_rows(all_rows(again.table), all_rows(part.table))
        path = export(root / "serving", STEPS, {"user": part})
        if rank == 0:
            assert len(ServingTable(path, "user")) == len(ServingTable(path, "user").ids().unique())

    assert ranks(world, str(root.parent), work) == [0] * world


def damaged(root: Path) -> None:
    """A file of one rank is damaged: every rank says so, and no table has changed."""
    file = sorted((root / f"delta-{STEPS:012d}").glob("*.distcp"))[-1]
    data = file.read_bytes()
    file.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])

    def work(rank: int) -> None:
        part = trained(rank, 2, 1)
        before = all_rows(part.table)
        try:
            Checkpointer(root, {"user": part}).load(step=STEPS)
        except CorruptCheckpoint as error:
            assert file.name in str(error)
        else:
            raise AssertionError("a damaged file was loaded")
        assert_same_rows(all_rows(part.table), before)

    assert ranks(2, str(root.parent), work) == [0, 0]
    file.write_bytes(data)


def dies(root: Path) -> None:
    """One of two ranks is killed while it writes: the other raises, and what was complete is the newest still."""

    def work(rank: int) -> None:
        part = trained(rank, 2, 1)
        checkpointer = Checkpointer(root, {"user": part})
        checkpointer.save(1)
        if rank == 1:
            ManifestWriter.write_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        try:
            checkpointer.save(2)
        except RuntimeError:
            os._exit(7)  # the group cannot be left in order

    assert ranks(2, str(root.parent), work) == [7, -signal.SIGKILL]
    table = make_table("adam", **POLICY)
    assert Checkpointer(root, {"user": table}).load() == 1
    assert_same_rows(all_rows(table), all_rows(whole(1)))


def main(folder: Path) -> None:
    one_thread()
    for saved, loaded in ((4, (2, 1)), (2, (8, 3)), (1, (2,))):
        for world in loaded:
            root = folder / f"{saved}-to-{world}"
            save(root, saved)
            expected = whole(STEPS)
            load(root, world, expected, erased_by_first(saved))
            if (saved, world) == (2, 3):
                damaged(root)
                rows = len(whole(STEPS + 1)) - 3
                assert len(ServingTable(_compacted(root, folder), "user")) in (rows, rows + 3)
            print(f"{saved} to {world}: ok", flush=True)
    dies(folder / "dies")
    print("a dead rank: ok", flush=True)


def _compacted(root: Path, folder: Path) -> Path:
    from hybrid_torchrec.checkpoint import export_checkpoint

    compact(root)
    return export_checkpoint(root, folder / "exported")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
