"""One rank of a program for the documents' stack: their imports, calls and keywords, nothing of ours.

documents_program.py KIND STORE RESULT, with RANK and WORLD_SIZE in the environment; rank 0 saves what was trained.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torchrec
from hybrid_torchrec import HashEmbeddingBagCollection, HashEmbeddingBagConfig
from hybrid_torchrec.distributed.hybrid_train_pipeline import HybridTrainPipelineSparseDist
from hybrid_torchrec.distributed.sharding_plan import get_default_hybrid_sharders
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.types import ShardingEnv
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.streamable import Pipelineable

STEPS, BATCH, CLASSES = 6, 8, 2
DIMS, ROWS = [8, 16], [40, 400]
FEATURES = ["feat0", "feat1"]
TABLE_RATE, EPS, DENSE_RATE = 0.05, 0.1, 0.1


@dataclass
class Batch(Pipelineable):
    features: torchrec.KeyedJaggedTensor
    labels: torch.Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        labels = self.labels.to(device, non_blocking=non_blocking)
        return Batch(self.features.to(device, non_blocking), labels)

    def pin_memory(self) -> Batch:
        return self

    def record_stream(self, stream: torch.Stream) -> None:
        pass


def make_batch(step: int, rank: int) -> Batch:
    """Bags of 0 to 3 ids; every id is below the table's rows, so that a static table has it too."""
    random = torch.Generator().manual_seed(100 * step + rank)
    lengths = torch.randint(4, (len(ROWS) * BATCH,), generator=random)
    values = [
        torch.randint(rows, (int(lengths[i * BATCH : (i + 1) * BATCH].sum()),), generator=random)
        for i, rows in enumerate(ROWS)
    ]
    features = torchrec.KeyedJaggedTensor.from_lengths_sync(FEATURES, torch.cat(values), lengths=lengths)
    return Batch(features, torch.randint(CLASSES, (BATCH,), generator=random))


class Model(torch.nn.Module):
    def __init__(self, sparse: torch.nn.Module, dense: torch.nn.Module) -> None:
        super().__init__()
        self.sparse, self.dense = sparse, dense

    def forward(self, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        rows = self.sparse(batch.features)
        rows = torch.cat([rows[name] for name in FEATURES], dim=-1)
        output = self.dense(rows)
        return torch.nn.functional.cross_entropy(output, batch.labels), {"sparse": rows, "dense": output}


def dense_model() -> torch.nn.Linear:
    linear = torch.nn.Linear(sum(DIMS), CLASSES)
    with torch.no_grad():
        linear.weight.copy_(torch.linspace(-0.3, 0.3, linear.weight.numel()).view_as(linear.weight))
        linear.bias.zero_()
    return linear


def weight_init(weight: torch.Tensor) -> None:
    """Draws nothing, so a static table can begin with the same rows."""
    weight.data.copy_(torch.linspace(0, 1, steps=weight.shape[1]).repeat(weight.shape[0], 1))


def train(device: torch.device) -> tuple[list[torch.Tensor], torch.nn.Module]:
    """Losses of this rank, and the model."""
    configs = [
        HashEmbeddingBagConfig(
            name=f"table{i}",
            embedding_dim=DIMS[i],
            num_embeddings=ROWS[i],
            feature_names=[FEATURES[i]],
            pooling=torchrec.PoolingType.MEAN,
            init_fn=weight_init,
        )
        for i in range(len(ROWS))
    ]
    model = Model(HashEmbeddingBagCollection(device="meta", tables=configs), dense_model())
    apply_optimizer_in_backward(
        torch.optim.Adagrad, model.sparse.parameters(), optimizer_kwargs={"lr": TABLE_RATE, "eps": EPS}
    )
    rank, world = dist.get_rank(), dist.get_world_size()
    host_env = ShardingEnv(world_size=world, rank=rank, pg=dist.new_group(backend="gloo"))
    sharders = get_default_hybrid_sharders(host_env=host_env)
    constraints = {
        config.name: ParameterConstraints(sharding_types=["row_wise"], compute_kernels=["fused"]) for config in configs
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=world, compute_device=device.type), constraints=constraints
    )
    plan = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    sharded = DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)
    dense = KeyedOptimizerWrapper(
        dict(in_backward_optimizer_filter(sharded.named_parameters())),
        lambda parameters: torch.optim.Adagrad(parameters, lr=DENSE_RATE),
    )
    optimizer = CombinedOptimizer([sharded.fused_optimizer, dense])
    pipeline = HybridTrainPipelineSparseDist(
        sharded, optimizer, device, return_loss=True, pipe_n_batch=6, execute_all_batches=True, apply_jit=False
    )
    batches = iter([make_batch(step, rank) for step in range(STEPS)])
    losses = []
    for _ in range(STEPS):
        output, loss = pipeline.progress(batches)
        assert output["sparse"].shape == (BATCH, sum(DIMS)) and not loss.requires_grad
        losses.append(loss.cpu())
    return losses, sharded


def main(kind: str, store: str, result: str) -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if kind == "npu":
        device = torch.device(f"npu:{rank}")
        torch.npu.set_device(device)
    backend = "hccl" if kind == "npu" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    losses, model = train(device)
    gathered: list[list[torch.Tensor] | None] = [None] * world
    dist.all_gather_object(gathered, losses)
    if rank == 0:
        torch.save({"losses": gathered, "dense": model.module.dense.weight.detach().cpu()}, result)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
