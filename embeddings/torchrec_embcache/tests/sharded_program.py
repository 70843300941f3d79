"""One of W processes: trains sharded models with resident and with cached tables, and compares them bit by bit.

    RANK=0 WORLD_SIZE=2 python sharded_program.py cpu STORE FOLDER

FOLDER/rank<r>.json says for each case what came out, FOLDER/<case>.rank<r>.pt has the outputs and the rows.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from hybrid_torchrec.backends import npu
from hybrid_torchrec.distributed import get_default_hybrid_sharders
from models import TABLES, make_batch, make_model
from torch import nn
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec_embcache import CachedTable
from torchrec_embcache.distributed import ShardedCached, get_default_embcache_sharders
from torchrec_embcache.pipeline import EmbCacheTrainPipelineSparseDist

STEPS = 25
CACHE_ROWS = 2 * 110
SHARDINGS = {
    "mixed": ("row_wise", "table_wise", "column_wise"),
    "rows": ("row_wise", "row_wise", "row_wise"),
    "nodes": ("table_row_wise", "table_column_wise", "grid_shard"),  # of one rank each, of two where there are four
}
CASES = [  # kind, sharding, batches looked ahead; None: without the pipeline
    ("bags", "mixed", 3),
    ("bags", "rows", 0),
    ("sequences", "rows", 2),
    ("sequences", "mixed", None),
    ("bags", "nodes", 2),
]
CASES_OF_FOUR = {
    "cpu": [("weighted", "mixed", 3), ("sequences", "rows", 2), ("bags", "nodes", 1)],
    "npu": [("weighted", "mixed", 3)],
}


def shard(model: nn.Module, sharding: str, sharders: list, device: torch.device, world: int) -> nn.Module:
    constraints = {
        table: ParameterConstraints(sharding_types=[kind], min_partition=4)
        for table, kind in zip(TABLES, SHARDINGS[sharding])
    }
    of_node = world // 2 if sharding == "nodes" and world > 1 else world
    topology = Topology(world_size=world, compute_device=device.type, local_world_size=of_node)
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints)
    plan = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    return DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)


def plainly(kind: str, model: nn.Module, rank: int, device: torch.device) -> list[torch.Tensor]:
    outputs = []
    for step in range(STEPS):
        loss, output = model(make_batch(step, rank, weighted=kind == "weighted").to(device))
        loss.backward()
        outputs.append(output.detach())
    return outputs


def piped(kind: str, model: nn.Module, rank: int, device: torch.device, look_ahead: int) -> list[torch.Tensor]:
    dense = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    pipeline = EmbCacheTrainPipelineSparseDist(model, dense, device, look_ahead=look_ahead)
    loader = iter([make_batch(step, rank, weighted=kind == "weighted") for step in range(STEPS)])
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


@contextmanager
def counted_prefetches() -> Iterator[list[int]]:
    """Inside, a list of the lengths of all batches that are given to cached tables before they train."""
    lengths: list[int] = []
    prefetch = CachedTable.prefetch

    def counted(table: CachedTable, ids: torch.Tensor) -> None:
        lengths.append(len(ids))
        prefetch(table, ids)

    CachedTable.prefetch = counted  # type: ignore[method-assign]
    try:
        yield lengths
    finally:
        CachedTable.prefetch = prefetch  # type: ignore[method-assign]


def compare(
    case: tuple[str, str, int | None], rank: int, world: int, device: torch.device, folder: Path
) -> dict[str, object]:
    kind, sharding, look_ahead = case
    meta = torch.device("meta")
    resident = shard(make_model(kind, meta, None, 0), sharding, get_default_hybrid_sharders(), device, world)
    cached = shard(make_model(kind, meta, folder, CACHE_ROWS), sharding, get_default_embcache_sharders(), device, world)
    expected = plainly(kind, resident, rank, device)
    with counted_prefetches() as prefetches:
        of = (kind, cached, rank, device)
        outputs = plainly(*of) if look_ahead is None else piped(*of, look_ahead)
    (module,) = [module for module in cached.modules() if isinstance(module, ShardedCached)]
    tables = [table for of_name in module.cached_tables().values() for table in of_name]
    stats = [table.disk_stats() for table in tables]  # of training alone
    right, left = rows(resident), rows(cached)
    parts = [part for module in cached.modules() for part in getattr(module, "parts", [])]
    torch.save(
        {"outputs": torch.stack(outputs).cpu(), **{key: value.cpu() for key, value in left.items()}},
        folder.with_name(f"{folder.name}.rank{rank}.pt"),
    )
    counters = [table.metrics.counters() for table in tables]
    module.close()
    return {
        "outputs": len(outputs) == STEPS and all(map(torch.equal, outputs, expected)),
        "rows": left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in right),
        "looked ahead": len(prefetches) == (0 if look_ahead is None else STEPS * len(parts)),
        "devices": sorted({part.table.weights.device.type for part in parts}),
        "columns": sorted({key.split(".")[-2] for key in left if key.endswith(".ids")}),
        "count": sum(len(tensor) for key, tensor in right.items() if key.endswith(".ids")),
        "evicted": sum(one.evicted_rows for one in counters),
        "on disk": sum(one.rows for one in stats if one is not None),
        "from disk": sum(one.bytes_read for one in stats if one is not None),
        "late": sum(one.late_batches for one in counters),
        "folders": sorted(str(path.relative_to(folder).parent) for path in folder.rglob("store.commit")),
    }


def main(kind: str, store: str, folder: Path) -> None:
    faulthandler.dump_traceback_later(240, exit=True)
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device, backend = torch.device("cpu"), "gloo"
    if kind == "npu":
        device, backend = torch.device("npu", rank), "hccl"
        assert npu.available(device)
        torch.npu.set_device(device)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=200)
    )
    found = {}
    for case in CASES if world < 4 else CASES_OF_FOUR[kind]:
        name = "-".join(map(str, case))
        found[name] = compare(case, rank, world, device, folder / name)
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    if backend == "gloo":
        time.sleep(0.2)  # its thread frees the last tensors under the GIL, which leaving does not release
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
