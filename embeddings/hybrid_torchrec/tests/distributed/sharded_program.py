"""One of W processes that train sharded models together and save what came out (run as a program).

    RANK=0 WORLD_SIZE=2 python sharded_program.py cpu STORE FOLDER bags.sgd.mixed.200 ...

FOLDER/<case>.pt holds, per step, the losses of all ranks, and at the end the rows of all tables, sorted by id, and the
dense parameters. Importing torchrec takes longer than training: one start serves many cases.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ROWS = 40
ROWS_IN_EVERY_BATCH = 8  # of optimizers whose static peers move rows that are not in the batch
MOVES_ALL_ROWS = ("adam", "adamw", "lamb", "lion")
SHARDINGS = {
    "rows": ("row_wise", "row_wise", "row_wise"),
    "mixed": ("row_wise", "table_wise", "column_wise"),
    "tables": ("table_wise", "table_wise", "table_wise"),
    "nodes": ("table_row_wise", "table_column_wise", "grid_shard"),  # of half of the ranks each
}


@dataclass(frozen=True)
class Case:
    module: str  # bags, weighted or sequences
    optimizer: str
    sharding: str  # of SHARDINGS
    steps: int
    how: str = (
        "plain"  # or pipelineN, lateN (a pipeline that reads late), accumulate, host (ids are not moved to the device)
    )

    @classmethod
    def of(cls, name: str) -> Case:
        module, optimizer, sharding, steps, *how = name.split(".")
        return cls(module, optimizer, sharding, int(steps), *how)

    @property
    def name(self) -> str:
        return f"{self.module}.{self.optimizer}.{self.sharding}.{self.steps}.{self.how}"

    @property
    def every_row(self) -> bool:
        return self.optimizer in MOVES_ALL_ROWS

    @property
    def rows(self) -> int:
        return ROWS_IN_EVERY_BATCH if self.every_row else ROWS


def specs(kind: str) -> list:
    """Of the three tables: rates of their own."""
    from hybrid_torchrec import OptimizerSpec

    eps = 1e-10 if kind != "sgd" else None
    decay = {"adamw": 0.1, "adam": 0.01, "lamb": 0.01}.get(kind, 0.0)
    rates = (0.02, 0.01, 0.04)
    return [OptimizerSpec(kind=kind, lr=rate, eps=eps, weight_decay=decay) for rate in rates]


def shard(model, case: Case, device: torch.device, world: int):
    from hybrid_torchrec.distributed import get_default_hybrid_sharders
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints

    sharders = get_default_hybrid_sharders()
    constraints = {
        table: ParameterConstraints(sharding_types=[kind], min_partition=4)
        for table, kind in zip(("t0", "t1", "t2"), SHARDINGS[case.sharding])
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=world, compute_device=device.type, local_world_size=ranks_of_a_node(case, world)),
        constraints=constraints,
    )
    plan = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    return DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)


def ranks_of_a_node(case: Case, world: int) -> int:
    return max(1, world // 2) if case.sharding == "nodes" else world


def train(rank: int, world: int, device: torch.device, case: Case) -> dict[str, object]:
    from batches import Batch
    from hybrid_torchrec.distributed import HybridTrainPipelineSparseDist
    from hybrid_torchrec.modules import accumulate_gradients
    from sharded_data import make_batch
    from sharded_model import OVER_RATE, hash_model
    from torchrec.optim.keyed import KeyedOptimizerWrapper
    from torchrec.optim.optimizers import in_backward_optimizer_filter

    model = shard(hash_model(case.module, specs(case.optimizer), torch.device("meta")), case, device, world)
    dense = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(model.named_parameters())),
        lambda parameters: torch.optim.SGD(parameters, lr=OVER_RATE),
    )
    batches = [
        make_batch(
            step, rank, world, case.rows, every_row=case.every_row, static=False, weighted=case.module == "weighted"
        )
        for step in range(case.steps)
    ]
    predictions = []
    if case.how.startswith(("pipeline", "late")):
        depth, late = int(case.how.lstrip("pielnat")), case.how.startswith("late")
        pipeline = HybridTrainPipelineSparseDist(model, dense, device, pipe_n_batch=depth, read_late=late)
        loader = iter(batches)
        while True:
            try:
                predictions.append(pipeline.progress(loader).detach())
            except StopIteration:
                break
    elif case.how == "accumulate":
        for first, second in zip(batches[::2], batches[1::2]):
            dense.zero_grad()
            with accumulate_gradients(model):
                loss, prediction = model(first.to(device))
                (loss / 2).backward()
                predictions.append(prediction.detach())
            loss, prediction = model(second.to(device))
            (loss / 2).backward()
            dense.step()
            predictions.append(prediction.detach())
    else:
        for batch in batches:
            dense.zero_grad()
            on_device = batch.to(device)
            if case.how == "host":
                on_device = Batch(batch.features, on_device.target)
            loss, prediction = model(on_device)
            loss.backward()
            dense.step()
            predictions.append(prediction.detach())
    return collect(model, predictions, world)


def collect(model, predictions: list[torch.Tensor], world: int) -> dict[str, object]:
    """What all ranks have, on the CPU: predictions (steps, global batch), and rows by table."""
    from hybrid_torchrec.distributed.table import ShardedTableModule

    own: dict[str, object] = {"predictions": torch.stack(predictions).cpu()}
    for name, table in model.module.named_modules():
        if isinstance(table, ShardedTableModule):
            parts = {}
            for part in table.parts:
                rows, _ = part.table.read(part.table.ids())
                parts[part.column] = {key: value.cpu() for key, value in rows.named_tensors().items()}
            own[name.split(".")[-1]] = parts
    every: list[dict] = [{} for _ in range(world)]
    dist.all_gather_object(every, own)
    result: dict[str, object] = {"predictions": torch.cat([one["predictions"] for one in every], dim=1)}
    for name in ("t0", "t1", "t2"):
        columns = sorted({column for one in every for column in one[name]})
        whole = []
        for column in columns:
            parts = [one[name][column] for one in every if column in one[name]]
            joined = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
            order = torch.argsort(joined["ids"])
            whole.append({key: value[order] for key, value in joined.items()})
        assert all(torch.equal(part["ids"], whole[0]["ids"]) for part in whole)
        result[name] = {"ids": whole[0]["ids"], "shows": whole[0]["shows"]}
        result[name]["weights"] = torch.cat([part["weights"] for part in whole], dim=1)
    result["over"] = model.module.over.weight.detach().cpu()
    return result


def run(rank: int, world: int, device: torch.device, name: str) -> dict[str, object]:
    import scenarios

    if name in scenarios.SCENARIOS:
        return scenarios.SCENARIOS[name](rank, world, device)
    return train(rank, world, device, Case.of(name))


def main(kind: str, store: str, folder: Path, cases: list[str]) -> None:
    faulthandler.dump_traceback_later(280 if len(cases) < 20 else 3000)
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    if kind == "npu":
        import torch_npu  # noqa: F401

        torch.npu.set_device(rank)  # type: ignore[attr-defined]
    device = torch.device("npu", rank) if kind == "npu" else torch.device("cpu")
    dist.init_process_group(
        "hccl" if kind == "npu" else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=240),
    )
    # Destroying a group while ranks still use it ends the other rank's collectives; leave together.
    try:
        for name in cases:
            record = run(rank, world, device, name)
            if rank == 0:
                torch.save(record, folder / f"{name}.pt")
        dist.barrier()
    finally:
        time.sleep(0.2)  # gloo frees the last tensors under the GIL, which its destructor holds
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
