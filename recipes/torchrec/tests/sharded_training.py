"""One of two processes that train small sharded models together and save what every step gave (run as a program).

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... python sharded_training.py npu FOLDER bags-row_wise-adagrad ...

`shard` makes one of these models; equality_program.py uses it for more ranks and steps.

The processes take different batches. FOLDER/<case>.pt holds, per step, the losses of both ranks, and at the end the
full tables and the dense parameters. Importing torchrec takes longer than training: one start serves many cases.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

RANKS = 2
STEPS = 4
BATCH = 3
RATE = 0.1
DIM = 8
TABLES = {"t0": (12, ["f0", "f1"]), "t1": (7, ["f2"])}
FEATURES = [feature for _, features in TABLES.values() for feature in features]


def make_tables() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {name: torch.randn(rows, DIM, generator=generator) for name, (rows, _) in TABLES.items()}


def make_batch(step: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """values [L], lengths [features * BATCH] (empty bags included), target [BATCH]."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    lengths = torch.randint(0, 4, (len(FEATURES) * BATCH,), generator=generator)
    rows = [rows for rows, features in TABLES.values() for _ in features]
    values = [
        torch.randint(0, limit, (int(lengths[f * BATCH : (f + 1) * BATCH].sum()),), generator=generator)
        for f, limit in enumerate(rows)
    ]
    return torch.cat(values), lengths, torch.randn(BATCH, generator=generator)


class Model(nn.Module):
    """Embeddings -> one number per sample. `sequences`: unpooled embeddings, summed per sample after."""

    def __init__(self, kind: str, device: torch.device) -> None:
        super().__init__()
        from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig

        make_config = EmbeddingBagConfig if kind == "bags" else EmbeddingConfig
        configs = [
            make_config(name=name, num_embeddings=rows, embedding_dim=DIM, feature_names=features)
            for name, (rows, features) in TABLES.items()
        ]
        collection = EmbeddingBagCollection if kind == "bags" else EmbeddingCollection
        self.kind = kind
        self.sparse = collection(tables=configs, device=device)
        generator = torch.Generator().manual_seed(3)
        self.over = nn.Linear(DIM * len(FEATURES), 1)
        with torch.no_grad():
            self.over.weight.copy_(torch.randn(self.over.weight.shape, generator=generator))
            self.over.bias.zero_()

    def forward(self, features: object, target: Tensor) -> Tensor:
        out = self.sparse(features)
        if self.kind == "bags":
            dense = out.values()
        else:
            dense = torch.cat([self._sum(out[feature]) for feature in FEATURES], dim=1)
        return (self.over(dense).squeeze(1) - target).square().mean()

    @staticmethod
    def _sum(jagged: object) -> Tensor:
        lengths: Tensor = jagged.lengths()  # type: ignore[attr-defined]
        values: Tensor = jagged.values()  # type: ignore[attr-defined]
        bag = torch.repeat_interleave(torch.arange(lengths.numel(), device=values.device), lengths.long())
        return values.new_zeros(lengths.numel(), values.size(1)).index_add(0, bag, values)


@dataclass(frozen=True)
class Case:
    module: str  # bags or sequences
    sharding: str
    optimizer: str  # sgd, adagrad or adam, fused into the lookup; or dense: a parameter with a gradient

    @classmethod
    def of(cls, name: str) -> Case:
        return cls(*name.split("-"))

    @property
    def name(self) -> str:
        return f"{self.module}-{self.sharding}-{self.optimizer}"


@dataclass(frozen=True)
class Sharded:
    """`model`: the wrapped one. `sparse`: its prefix of table names in the state. `placements`: of all shards."""

    model: nn.Module
    sparse: str
    placements: list[str]


def shard(
    model: nn.Module, case: Case, device: torch.device, world: int, path: str = "sparse", rate: float = RATE
) -> Sharded:
    """The model with the tables of make_tables(), sharded over `world` ranks as the planner says under the case's
    constraints (`planned`: any type whose optimizer is fused). `path`: of the embedding module in the model. Table-row-
    wise sees nodes of LOCAL_WORLD_SIZE devices."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embedding import EmbeddingCollectionSharder
    from torchrec.distributed.embedding_types import EmbeddingComputeKernel
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints

    fused = case.sharding != "data_parallel" and case.optimizer != "dense"
    optimizer = {
        "sgd": EmbOptimType.EXACT_SGD,
        "adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        "adam": EmbOptimType.ADAM,
    }
    fused_params = {"optimizer": optimizer[case.optimizer], "learning_rate": rate} if fused else {}
    make_sharder = EmbeddingBagCollectionSharder if case.module == "bags" else EmbeddingCollectionSharder
    sharder = make_sharder(fused_params=fused_params)
    kernel = EmbeddingComputeKernel.FUSED if fused else EmbeddingComputeKernel.DENSE
    types = ["table_wise", "row_wise", "column_wise"] if case.sharding == "planned" else [case.sharding]
    constraint = ParameterConstraints(sharding_types=types, compute_kernels=[kernel.value], min_partition=DIM // 2)
    # gloo shards rows only with the reduce_scatter that the caller gave it, so torchrec does not offer it on the CPU
    sharder.sharding_types = lambda device_type: types  # type: ignore[method-assign]
    local_world = int(os.environ["LOCAL_WORLD_SIZE"])
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=world, compute_device=device.type, local_world_size=local_world),
        constraints=dict.fromkeys(TABLES, constraint),
    )
    if case.optimizer == "dense":
        # Sharders offer DENSE for data parallelism only; the kernel itself serves every sharding type.
        sharder.compute_kernels = lambda sharding_type, device_type: [kernel.value]  # type: ignore[method-assign]
    plan = planner.collective_plan(model, [sharder], dist.GroupMember.WORLD)
    shards = [
        part
        for parameter in plan.plan[path].values()
        if parameter.sharding_spec is not None
        for part in parameter.sharding_spec.shards
    ]
    for part in shards if local_world < world else ():
        # The nodes are simulated: rank r is on device r of the one host that there is.
        rank = part.placement.rank()
        where = f"rank:{rank}/{device.type}:{rank}" if device.type == "npu" else f"rank:{rank}/cpu"
        part.placement = torch.distributed._remote_device(where)
    sharded = DistributedModelParallel(model, device=device, plan=plan, sharders=[sharder])
    state = sharded.state_dict()
    prefix = f"{path}.embedding_bags" if case.module == "bags" else f"{path}.embeddings"
    for name, table in make_tables().items():
        fill(state[f"{prefix}.{name}.weight"], table)
    sharded.load_state_dict(state)
    return Sharded(sharded, prefix, [str(part.placement) for part in shards])


def dense_optimizer(model: nn.Module, rate: float = RATE) -> torch.optim.Optimizer:
    """SGD on what has no optimizer in its backward."""
    from torchrec.optim.keyed import KeyedOptimizerWrapper

    return KeyedOptimizerWrapper(
        {k: p for k, p in model.named_parameters() if not hasattr(p, "_in_backward_optimizers")},
        lambda parameters: torch.optim.SGD(parameters, lr=rate),
    )


def train(
    rank: int, device: torch.device, case: Case, world: int = RANKS, steps: int = STEPS, rate: float = RATE
) -> dict[str, object]:
    from torchrec import KeyedJaggedTensor

    sharded = shard(Model(case.module, torch.device("meta")), case, device, world, rate=rate)
    model = sharded.model
    dense = dense_optimizer(model, rate)
    losses = []
    for step in range(steps):
        values, lengths, target = (part.to(device) for part in make_batch(step, rank))
        features = KeyedJaggedTensor(keys=FEATURES, values=values, lengths=lengths)
        dense.zero_grad()
        loss = model(features, target)
        loss.backward()
        dense.step()
        both = [torch.zeros_like(loss) for _ in range(world)]
        dist.all_gather(both, loss.detach())
        losses.append([float(item) for item in both])
    return {"losses": losses, "placements": sharded.placements, **tables_of(sharded, device)}


def tables_of(sharded: Sharded, device: torch.device) -> dict[str, object]:
    """The full tables, and the weight of the layer over them."""
    state = sharded.model.state_dict()
    result: dict[str, object] = {name: collect(state[f"{sharded.sparse}.{name}.weight"], device) for name in TABLES}
    (over,) = [name for name in state if name.endswith("over.weight")]
    return {**result, "over": state[over].detach().cpu().clone()}


def fill(target: object, table: Tensor) -> None:
    """Write the full `table` into a (sharded) tensor."""
    if isinstance(target, Tensor) and not hasattr(target, "local_shards"):
        target.copy_(table)
        return
    for shard in target.local_shards():  # type: ignore[attr-defined]
        (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
        shard.tensor.copy_(table[row : row + rows, column : column + columns])


def collect(source: object, device: torch.device) -> Tensor:
    """The full tensor of a (sharded) tensor, on every rank."""
    if not hasattr(source, "local_shards"):
        return source.detach().cpu().clone()  # type: ignore[attr-defined]
    whole = torch.zeros(source.size(), device=device)  # type: ignore[attr-defined]
    for shard in source.local_shards():  # type: ignore[attr-defined]
        (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
        whole[row : row + rows, column : column + columns] = shard.tensor.detach()
    dist.all_reduce(whole)
    return whole.cpu()


def main(kind: str, folder: Path, cases: list[Case]) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS))
    if kind == "npu":
        import torch_npu  # noqa: F401

        torch.npu.set_device(rank)  # type: ignore[attr-defined]
    device = torch.device("npu", rank) if kind == "npu" else torch.device("cpu")
    dist.init_process_group("hccl" if kind == "npu" else "gloo")
    # Destroying a group while ranks still use it ends the other rank's collectives; leave together.
    try:
        for case in cases:
            record = train(rank, device, case)
            if rank == 0:
                torch.save(record, folder / f"{case.name}.pt")
        dist.barrier()
    finally:
        time.sleep(0.2)  # gloo frees the last tensors under the GIL, which its destructor holds
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [Case.of(name) for name in sys.argv[3:]])
