"""The table of items: in one piece on every process, or sharded over the processes by torchrec (dynamic_tables.py:
with rows for those ids only that were seen).

Shape suffixes: as in lookup.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gr_model.config import ConfigError, EmbeddingConfig
from gr_model.config import embedding as embedding_config
from gr_model.embedding import dynamic_tables
from gr_model.embedding.lookup import FEATURE, CollectionTable, StaticTable
from gr_model.runtime.world import World

CHUNK = 1 << 16  # rows that are looked up, or initialised, at a time


class ShardedTable(CollectionTable):
    """Has a row for each item from the beginning."""

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__(rows, dim)
        from torchrec import EmbeddingCollection
        from torchrec import EmbeddingConfig as TableConfig

        table = TableConfig(name=FEATURE, num_embeddings=rows, embedding_dim=dim, feature_names=[FEATURE])
        self.collection = EmbeddingCollection(tables=[table], device=torch.device("meta"))


def make(config: EmbeddingConfig, rows: int, dim: int) -> StaticTable | CollectionTable:
    if config.kind == "static":
        return StaticTable(rows, dim)
    if config.kind == "sharded":
        return ShardedTable(rows, dim)
    return dynamic_tables.DynamicTable(config, rows, dim)


def initial_rows(seed: int, start: int, stop: int, dim: int, std: float = 0.02) -> Iterator[tuple[int, torch.Tensor]]:
    """Blocks (first row, [rows, D]) that cover [start, stop): the same numbers whichever process asks for them."""
    for block in range(start // CHUNK, -(-stop // CHUNK)):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + block)
        rows = nn.init.trunc_normal_(torch.empty(CHUNK, dim), std=std, generator=generator)
        low, high = max(start, block * CHUNK), min(stop, (block + 1) * CHUNK)
        yield low, rows[low - block * CHUNK : high - block * CHUNK]


def shard(model: nn.Module, config: EmbeddingConfig, world: World, seed: int) -> Any:
    """The model under torchrec's DistributedModelParallel, its tables sharded and filled; the dense part as it was."""
    import torch.distributed as dist
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.comm import get_local_size
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.distributed.types import ShardingEnv

    device, launched = world.device, dist.is_initialized()
    if not launched and not config.dynamic:
        raise ConfigError(embedding_config.NEEDS_LAUNCHER)
    if config.dynamic:
        for table in _collections(model):
            table.build(seed)
            table.world = world
        sharder = dynamic_tables.sharder(config)
    else:
        sharder = _sharder(config, device)
    size = dist.get_world_size() if launched else 1
    of_host = get_local_size(size) if launched else 1  # a shard's device is its process's on the process's own host
    dim = max(table.dim for table in _collections(model))
    # Without a least width torchrec splits no columns of fewer than 256. It takes the next divisor of 4.
    width = None if config.dynamic else -(-dim // size)
    constraints = ParameterConstraints(sharding_types=[config.sharding], compute_kernels=["fused"], min_partition=width)
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=size, compute_device=device.type, local_world_size=of_host),
        constraints={FEATURE: constraints},
    )
    _move(model, device)
    if launched:
        env, plan = None, planner.collective_plan(model, [sharder], dist.GroupMember.WORLD)
    else:
        env, plan = ShardingEnv.from_local(1, 0), planner.plan(model, [sharder])
    sharded = DistributedModelParallel(
        model, env=env, device=device, plan=plan, sharders=[sharder], init_data_parallel=False, init_parameters=False
    )
    for table in _collections(model):
        table.device = device
    if not config.dynamic:
        for tensor in sharded.state_dict().values():
            if hasattr(tensor, "local_shards"):
                _fill(tensor, seed)
    return sharded


@contextmanager
def left_out(model: nn.Module) -> Iterator[None]:
    """`model` without what torchrec has sharded: parameters and lookups there are not the dense part's."""
    collections = [(table, table.collection) for table in _collections(model)]
    for table, _ in collections:
        table.collection = None
    try:
        yield
    finally:
        for table, collection in collections:
            table.collection = collection


def _collections(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, CollectionTable)]


def _sharder(config: EmbeddingConfig, device: torch.device) -> Any:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec.distributed.embedding import EmbeddingCollectionSharder

    kinds = {
        "sgd": EmbOptimType.EXACT_SGD,
        "adagrad": EmbOptimType.EXACT_ADAGRAD,
        "adam": EmbOptimType.ADAM,
        "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    }
    faults = list(embedding_config.device_faults(config, device.type))
    if faults:
        raise ConfigError("; ".join(faults))
    return EmbeddingCollectionSharder(
        fused_params={"optimizer": kinds[config.optimizer], "learning_rate": config.lr, "eps": config.eps}
    )


@torch.no_grad()
def _fill(tensor: Any, seed: int) -> None:
    for part in tensor.local_shards():
        (row, column), (rows, columns) = part.metadata.shard_offsets, part.metadata.shard_sizes
        for first, block in initial_rows(seed, row, row + rows, tensor.size(1)):
            part.tensor[first - row : first - row + len(block)] = block[:, column : column + columns]


def _move(model: nn.Module, device: torch.device) -> None:
    """What has storage goes to the device; tables on `meta` get theirs when they are sharded."""
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None and not parameter.is_meta:
                parameter.data = parameter.data.to(device)
        for name, buffer in module._buffers.items():
            if buffer is not None and not buffer.is_meta:
                module._buffers[name] = buffer.to(device)
