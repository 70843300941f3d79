"""One step of a table that torchrec plans for and shards onto the device, against plain PyTorch on the CPU.

Run as a program: python -m smoke_tests.checks.sharded npu
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

from gr_model.runtime.device import open_device
from smoke_tests.checks.collectives import BACKENDS

ROWS, DIM, RATE, TOLERANCE = 12, 8, 0.1, 1e-5
LENGTHS, VALUES = [2, 0, 3], [3, 7, 7, 0, 7]  # an empty bag, and a row in two bags


def main(kind: str) -> None:
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    device = open_device(kind)
    dist.init_process_group(BACKENDS[kind], store=dist.HashStore(), rank=0, world_size=1)
    try:
        table = torch.arange(ROWS * DIM, dtype=torch.float32).reshape(ROWS, DIM) / 50
        target = torch.ones(len(LENGTHS), DIM)
        pooled, updated = sharded_step(device, table, target)
        expected_pooled, expected_table = plain_step(table, target)
        torch.testing.assert_close(pooled, expected_pooled, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(updated, expected_table, rtol=TOLERANCE, atol=TOLERANCE)
    finally:
        dist.destroy_process_group()


def sharded_step(device: torch.device, table: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The pooled rows, and the table after a step of SGD that is fused into the lookup."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints

    bags = EmbeddingBagConfig(name="t", num_embeddings=ROWS, embedding_dim=DIM, feature_names=["f"])
    model = EmbeddingBagCollection(tables=[bags], device=torch.device("meta"))
    model = torch.nn.ModuleDict({"sparse": model})
    sharder = EmbeddingBagCollectionSharder({"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE})
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=1, local_world_size=1, compute_device=device.type),
        constraints={"t": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])},
    )
    plan = planner.plan(model, [sharder])
    (shard,) = plan.plan["sparse"]["t"].sharding_spec.shards
    assert f"/{device.type}" in str(shard.placement), f"the planner placed the table on {shard.placement}"
    model = DistributedModelParallel(model, device=device, plan=plan, sharders=[sharder])
    (local,) = model.state_dict()["sparse.embedding_bags.t.weight"].local_shards()
    local.tensor.copy_(table)

    features = KeyedJaggedTensor(
        keys=["f"], values=torch.tensor(VALUES, device=device), lengths=torch.tensor(LENGTHS, device=device)
    )
    pooled = model.module["sparse"](features).values()
    (pooled * target.to(device)).sum().backward()
    return pooled.detach().cpu(), local.tensor.detach().cpu()


def plain_step(table: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = table.clone().requires_grad_()
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0)[:-1]
    pooled = torch.nn.functional.embedding_bag(torch.tensor(VALUES), rows, offsets, mode="sum")
    (pooled * target).sum().backward()
    return pooled.detach(), table - RATE * rows.grad


if __name__ == "__main__":
    main(sys.argv[1])
