"""Sharded HashEmbeddingCollection and its sharder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchrec.distributed.types import ParameterSharding, ShardingEnv
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from hybrid_torchrec.distributed.context import HashContext
from hybrid_torchrec.distributed.repeated import repeated
from hybrid_torchrec.distributed.sharded import OutputAwaitable, ShardedHashModule
from hybrid_torchrec.distributed.sharder import HashSharder
from hybrid_torchrec.modules.embedding import HashEmbeddingCollection, SequenceOutput, local_sequences

Sequences = dict[str, JaggedTensor]


class ShardedHashEmbeddingCollection(ShardedHashModule[Sequences]):
    """See HashEmbeddingCollection; output is that of the whole collection, on every rank for its own batch."""

    tables_name = "embeddings"
    awaitable = OutputAwaitable

    def __init__(
        self,
        module: HashEmbeddingCollection,
        plan: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        super().__init__(module, plan, env, fused_params, device)
        self._output = SequenceOutput(self._configs, module.need_indices())

    def embedding_configs(self) -> list[Any]:
        return self._configs

    def _prepare(self, ctx: HashContext, features: Mapping[str, JaggedTensor]) -> None:
        """Nothing: where each row lies is known already."""

    def _local_output(self, features: KeyedJaggedTensor) -> Sequences:
        return local_sequences(
            features, self._configs, self.embeddings, self.training, self._output, self._table_groups
        )

    def _remote_output(self, ctx: HashContext, answers: tuple[Tensor, ...]) -> Sequences:
        """One row for each value, of the rows of distinct ids."""
        assert ctx.features is not None
        by_shard: dict[int, Tensor] = {}
        for group, rows in zip(self._groups, answers):
            if ctx.in_order:
                by_shard[group[0]] = rows
                continue
            # One operator a group: the gradient of each has as many rows as the answer.
            index = torch.cat([ctx.rows[number] for number in group])
            sizes = [ctx.rows[number].numel() for number in group]
            by_shard.update(zip(group, repeated(rows, index).split(sizes)))
        per_feature: dict[str, JaggedTensor] = ctx.features.to_dict()
        values: list[Tensor] = []
        for config in self._configs:
            columns = [by_shard[number] for number in self._shards_of[config.name]]
            table_rows = columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)
            values.extend(table_rows.split([per_feature[f].values().numel() for f in config.feature_names]))
        return self._output.join(values, ctx.features)


class HashEmbeddingCollectionSharder(HashSharder[HashEmbeddingCollection]):
    """Gives HashEmbeddingCollection to torchrec's planner and DistributedModelParallel."""

    collection = HashEmbeddingCollection
    sharded = ShardedHashEmbeddingCollection
