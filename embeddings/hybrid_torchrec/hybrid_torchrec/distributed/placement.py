"""Where the rows of a table live: its column shards, and the ranks among which the ids of each are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torchrec.distributed.types import EnumerableShardingSpec, ParameterSharding, ShardingType
from torchrec.modules.embedding_configs import BaseEmbeddingConfig

from hybrid_torchrec.hashing import rank_of

# Every type that splits a table by rows, by columns or by both; each id then has one owner for each column shard.
SHARDING_TYPES = (
    ShardingType.ROW_WISE.value,
    ShardingType.TABLE_WISE.value,
    ShardingType.COLUMN_WISE.value,
    ShardingType.TABLE_ROW_WISE.value,
    ShardingType.TABLE_COLUMN_WISE.value,
    ShardingType.GRID_SHARD.value,
)


@dataclass(frozen=True, kw_only=True)
class ColumnShard:
    """Columns [column, column + width) of a table; an id lives on `ranks[rank_of(id, len(ranks))]`."""

    table: str
    column: int
    width: int
    ranks: tuple[int, ...]

    def owner(self, ids: Tensor) -> Tensor:
        """Rank of each id. ids (U,) int64 -> (U,) int64."""
        if len(self.ranks) == 1:
            return torch.full_like(ids, self.ranks[0])
        bucket = rank_of(ids, len(self.ranks))
        if self.ranks == tuple(range(len(self.ranks))):
            return bucket
        return torch.tensor(self.ranks, dtype=torch.int64, device=ids.device)[bucket]


def place(config: BaseEmbeddingConfig, sharding: ParameterSharding, world_size: int) -> list[ColumnShard]:
    """The column shards of a table, by column.

    The rows of a plan's shards stand for shares of the ids: which ids a share holds is decided by their hash.

    Raises ValueError for data parallelism and for plans that do not cover the table.
    """
    if sharding.sharding_type == ShardingType.DATA_PARALLEL.value:
        raise ValueError(
            f"table {config.name}: data_parallel keeps a copy of the table on each rank and all-reduces a gradient of "
            "all rows, but the ranks of a hash table see different ids and would hold different rows; "
            f"use one of {', '.join(SHARDING_TYPES)} (ParameterConstraints(sharding_types=...))"
        )
    if sharding.sharding_type not in SHARDING_TYPES:
        raise ValueError(f"table {config.name}: sharding type {sharding.sharding_type}, not one of {SHARDING_TYPES}")
    spec = sharding.sharding_spec
    if not isinstance(spec, EnumerableShardingSpec):
        raise ValueError(
            f"table {config.name}: the plan has no list of shards; make it with EmbeddingShardingPlanner "
            "or construct_module_sharding_plan"
        )
    ranks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for shard in spec.shards:
        rank = shard.placement.rank()
        if rank is None or not 0 <= rank < world_size:
            raise ValueError(f"table {config.name}: the plan names rank {rank} of {world_size}")
        columns = (shard.shard_offsets[1], shard.shard_sizes[1])
        ranks.setdefault(columns, []).append((shard.shard_offsets[0], rank))
    # A shard of no rows, which plans give when ranks are more than rows, still takes its share of the ids.
    shards = [
        ColumnShard(table=config.name, column=column, width=width, ranks=_distinct([r for _, r in sorted(owners)]))
        for (column, width), owners in sorted(ranks.items())
        if width
    ]
    end = 0
    for shard_of_columns in shards:
        if shard_of_columns.column != end:
            raise ValueError(f"table {config.name}: the plan's shards leave or overlap column {end}")
        end += shard_of_columns.width
    if world_size == 1 and end == config.embedding_dim:
        return [ColumnShard(table=config.name, column=0, width=end, ranks=(0,))]  # nothing to gain from cutting columns
    if end != config.embedding_dim:
        raise ValueError(f"table {config.name}: the plan's shards have {end} columns, the table {config.embedding_dim}")
    return shards


def place_all(
    configs: list[BaseEmbeddingConfig], plan: Mapping[str, ParameterSharding], world_size: int
) -> dict[str, list[ColumnShard]]:
    missing = [config.name for config in configs if config.name not in plan]
    if missing:
        raise ValueError(
            f"the sharding plan lacks tables {', '.join(missing)}; plan with get_default_hybrid_sharders()"
        )
    return {config.name: place(config, plan[config.name], world_size) for config in configs}


def _distinct(ranks: list[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ranks))
