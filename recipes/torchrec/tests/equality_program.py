"""Everything that must be equal on emulated NPUs with hccl and on the CPU with gloo, on 2, 4 and 8 ranks (a program).

    python equality_program.py FOLDER RANKS ...

FOLDER/<kind>-<ranks>.pt holds what the ranks returned. The checkpoint is saved by the 4 NPUs and loaded by 2 NPUs and
by 2 processes on the CPU, so 4 comes before 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sharded_training as program  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from grid.ranks import run  # noqa: E402
from sharded_training import Case, Model, Sharded  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torchrec import KeyedJaggedTensor  # noqa: E402
from torchrec.distributed.dist_data import KJTAllToAll  # noqa: E402
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist  # noqa: E402
from torchrec.streamable import Pipelineable  # noqa: E402

STEPS = 20
RATE = 0.01  # at 0.1 the losses grow, and with them what the order of a sum makes of its last bit
WORLDS = (2, 4)
SHARDINGS = ("table_wise", "row_wise", "column_wise", "data_parallel")
# torchrec 1.1.0 has no table-row-wise EmbeddingCollection
CASES = [
    *(Case("bags", sharding, "adagrad") for sharding in (*SHARDINGS, "table_row_wise")),
    *(Case("sequences", sharding, "adagrad") for sharding in SHARDINGS),
    Case("bags", "row_wise", "sgd"),
    Case("bags", "table_row_wise", "sgd"),
]
# Only on NPUs. Whatever types the planner takes, SGD gives the same; row-wise Adagrad would not on split columns.
PLANNED = Case("bags", "planned", "sgd")
PIPELINED = Case("bags", "row_wise", "adagrad")
SAVED, LOADED = Case("bags", "row_wise", "adagrad"), Case("bags", "table_wise", "adagrad")
SAVE_AT, GO_ON = 5, 3  # steps
SPLITS = {2: [2, 1], 4: [1, 0, 1, 1], 8: [0, 1, 0, 0, 1, 0, 1, 0]}  # features that each rank gets


@dataclass
class Batch(Pipelineable):
    features: KeyedJaggedTensor
    target: Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        return Batch(self.features.to(device, non_blocking), self.target.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: Any) -> None:
        self.features.record_stream(stream)
        self.target.record_stream(stream)


class ForPipeline(nn.Module):
    """Loss and output, from one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model("bags", torch.device("meta"))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        loss = self.model(batch.features, batch.target)
        return loss, loss.detach()


def features_of(step: int, rank: int) -> tuple[KeyedJaggedTensor, Tensor]:
    values, lengths, target = program.make_batch(step, rank)
    return KeyedJaggedTensor(keys=program.FEATURES, values=values, lengths=lengths), target


def batches(rank: int) -> Iterator[Batch]:
    for step in range(STEPS):
        yield Batch(*features_of(step, rank))


def pipelined(rank: int, device: torch.device, world: int) -> dict[str, object]:
    sharded = program.shard(ForPipeline(), PIPELINED, device, world, path="model.sparse", rate=RATE)
    pipeline = TrainPipelineSparseDist(sharded.model, program.dense_optimizer(sharded.model, RATE), device)
    source = batches(rank)
    losses = []
    for _ in range(STEPS):
        every = [torch.zeros((), device=device) for _ in range(world)]
        dist.all_gather(every, pipeline.progress(source))
        losses.append([float(loss) for loss in every])
    return {"losses": losses, "pipelined": len(pipeline._pipelined_modules), **program.tables_of(sharded, device)}


def exchanged(rank: int, device: torch.device, world: int) -> dict[str, object]:
    """What this rank has after a KeyedJaggedTensor all-to-all."""
    features, _ = features_of(0, rank)
    got = KJTAllToAll(dist.group.WORLD, SPLITS[world])(features.to(device)).wait().wait()
    return {"keys": list(got.keys()), "lengths": got.lengths(), "values": got.values(), "device": got.device().type}


def state_of(sharded: Sharded) -> dict[str, Any]:
    return {"model": sharded.model.state_dict(), "optimizer": sharded.model.fused_optimizer.state_dict()}


def steps(sharded: Sharded, rank: int, device: torch.device, first: int, last: int) -> None:
    dense = program.dense_optimizer(sharded.model, RATE)
    for step in range(first, last):
        features, target = features_of(step, rank)
        dense.zero_grad()
        sharded.model(features.to(device), target.to(device)).backward()
        dense.step()


def momentum(sharded: Sharded, device: torch.device) -> dict[str, Tensor]:
    """The row-wise optimizer's state, whole, by table; a rank's own has only the tables of which it has a shard."""
    whole = {name: torch.zeros(rows, device=device) for name, (rows, _) in program.TABLES.items()}
    for parameter, state in sharded.model.fused_optimizer.state_dict()["state"].items():
        for name, value in state.items():
            for part in value.local_shards() if "momentum1" in name else ():
                start = part.metadata.shard_offsets[0]
                whole[parameter.split(".")[-2]][start : start + part.metadata.shard_sizes[0]] = part.tensor
    for table in whole.values():
        dist.all_reduce(table)
    return whole


def save(rank: int, device: torch.device, world: int, folder: Path) -> dict[str, object]:
    sharded = program.shard(Model("bags", torch.device("meta")), SAVED, device, world, rate=RATE)
    steps(sharded, rank, device, 0, SAVE_AT)
    checkpoint.save(state_of(sharded), checkpoint_id=folder)
    return {**program.tables_of(sharded, device), "momentum": momentum(sharded, device)}


def load(rank: int, device: torch.device, world: int, folder: Path) -> dict[str, object]:
    sharded = program.shard(Model("bags", torch.device("meta")), LOADED, device, world, rate=RATE)
    state = state_of(sharded)
    checkpoint.load(state, checkpoint_id=folder)
    sharded.model.load_state_dict(state["model"])
    sharded.model.fused_optimizer.load_state_dict(state["optimizer"])
    record = {**program.tables_of(sharded, device), "momentum": momentum(sharded, device)}
    steps(sharded, rank, device, SAVE_AT, SAVE_AT + GO_ON)
    return {"loaded": record, "after": program.tables_of(sharded, device)}


def on_rank(kind: str, world: int, saved: Path) -> dict[str, object]:
    rank = int(os.environ["RANK"])
    # table-row-wise on 4 and 8 ranks: nodes of two
    os.environ.update(LOCAL_WORLD_SIZE="2", LOCAL_RANK=str(rank % 2))
    device = torch.device("npu", rank) if kind == "npu" else torch.device("cpu")
    dist.init_process_group("hccl" if kind == "npu" else "gloo")
    result: dict[str, object] = {}
    # fbgemm's CPU kernels have no unpooled lookup, so the CPU has no sharded EmbeddingCollection
    cases = [*CASES, PLANNED] if kind == "npu" else [case for case in CASES if case.module == "bags"]
    for case in cases:
        result[case.name] = program.train(rank, device, case, world, STEPS, RATE)
    result["exchanged"] = exchanged(rank, device, world)
    if kind == "npu":
        result["pipelined"] = pipelined(rank, device, world)
        if world == 4:
            result["saved"] = save(rank, device, world, saved)
    if world == 2:
        result["continued"] = load(rank, device, world, saved)
    dist.barrier()
    return result


def main(folder: Path, worlds: list[int]) -> None:
    import torch_npu  # noqa: F401

    for world in worlds:
        for kind in ("npu", "cpu"):
            saved, log = folder / "checkpoint", folder / "ranks.log"
            results = run(on_rank, kind, world, saved, kind=kind, world=world, log=log, seconds=100.0 * world)
            torch.save(results if isinstance(results, list) else repr(results), folder / f"{kind}-{world}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(world) for world in sys.argv[2:]])
