"""One of W processes: trains sharded models with resident and with cached tables, and compares them bit by bit.

    RANK=0 WORLD_SIZE=2 python sharded_program.py STORE FOLDER

FOLDER/rank<r>.json says for each case what came out.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from hybrid_torchrec.distributed import get_default_hybrid_sharders
from models import TABLES, make_batch, make_model
from torch import nn
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec_embcache.distributed import ShardedCached, get_default_embcache_sharders
from torchrec_embcache.pipeline import EmbCacheTrainPipelineSparseDist

STEPS = 25
CPU = torch.device("cpu")
SHARDINGS = {
    "mixed": ("row_wise", "table_wise", "column_wise"),
    "rows": ("row_wise", "row_wise", "row_wise"),
}
CASES = [  # kind, sharding, batches looked ahead; None: without the pipeline
    ("bags", "mixed", 3), ("bags", "rows", 0), ("sequences", "rows", 2), ("sequences", "mixed", None),
]  # fmt: skip


def shard(model: nn.Module, sharding: str, sharders: list, world: int) -> nn.Module:
    constraints = {
        table: ParameterConstraints(sharding_types=[kind], min_partition=4)
        for table, kind in zip(TABLES, SHARDINGS[sharding])
    }
    topology = Topology(world_size=world, compute_device="cpu", local_world_size=world)
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints)
    plan = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    return DistributedModelParallel(model, device=CPU, plan=plan, sharders=sharders)


def plainly(model: nn.Module, rank: int) -> list[torch.Tensor]:
    outputs = []
    for step in range(STEPS):
        loss, output = model(make_batch(step, rank))
        loss.backward()
        outputs.append(output.detach())
    return outputs


def piped(model: nn.Module, rank: int, look_ahead: int) -> list[torch.Tensor]:
    dense = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    pipeline = EmbCacheTrainPipelineSparseDist(model, dense, CPU, look_ahead=look_ahead)
    loader = iter([make_batch(step, rank) for step in range(STEPS)])
    outputs = []
    while True:
        try:
            outputs.append(pipeline.progress(loader).detach())
        except StopIteration:
            return outputs


def rows(model: nn.Module) -> dict[str, torch.Tensor]:
    """This rank's rows by table and column, sorted by id."""
    found = {}
    for name, module in model.named_modules():
        for part in getattr(module, "parts", []):
            table = part.table
            batch = table.read(table.ids())[0].sorted_by_id()
            found |= {f"{name}.{part.column}.{key}": value for key, value in batch.named_tensors().items()}
    return found


def compare(case: tuple[str, str, int | None], rank: int, world: int, folder: Path) -> dict[str, object]:
    kind, sharding, look_ahead = case
    meta = torch.device("meta")
    resident = shard(make_model(kind, meta, None, 0), sharding, get_default_hybrid_sharders(), world)
    cached = shard(make_model(kind, meta, folder, 2 * 110), sharding, get_default_embcache_sharders(), world)
    expected = plainly(resident, rank)
    outputs = plainly(cached, rank) if look_ahead is None else piped(cached, rank, look_ahead)
    right, left = rows(resident), rows(cached)
    (module,) = [module for module in cached.modules() if isinstance(module, ShardedCached)]
    snapshots = [table.snapshot() for tables in module.cached_tables().values() for table in tables]
    module.close()
    return {
        "outputs": len(outputs) == STEPS and all(map(torch.equal, outputs, expected)),
        "rows": left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in right),
        "count": sum(len(tensor) for key, tensor in right.items() if key.endswith(".ids")),
        "evicted": sum(snapshot.counters.evicted_rows for snapshot in snapshots),
        "late": sum(snapshot.counters.late_batches for snapshot in snapshots),
        "folders": sorted(str(path.relative_to(folder).parent) for path in folder.rglob("store.commit")),
    }


def main() -> None:
    faulthandler.dump_traceback_later(240, exit=True)
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store, folder = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=200)
    )
    found = {}
    for case in CASES:
        name = "-".join(map(str, case))
        found[name] = compare(case, rank, world, folder / name)
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.barrier()


if __name__ == "__main__":
    main()
