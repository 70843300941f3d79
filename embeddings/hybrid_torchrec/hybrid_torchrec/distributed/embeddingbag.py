"""Sharded HashEmbeddingBagCollection and its sharder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchrec.distributed.types import LazyGetItemMixin, ParameterSharding, ShardingEnv
from torchrec.modules.embedding_configs import PoolingType
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

from hybrid_torchrec.distributed.context import BagIndex, HashContext
from hybrid_torchrec.distributed.sharded import OutputAwaitable, ShardedHashModule
from hybrid_torchrec.distributed.sharder import HashSharder
from hybrid_torchrec.host_copies import to_device
from hybrid_torchrec.modules.embeddingbag import BagOutput, HashEmbeddingBagCollection, local_bags
from hybrid_torchrec.modules.pooling import join_offsets, sum_bags


class PooledAwaitable(LazyGetItemMixin[str, Tensor], OutputAwaitable[KeyedTensor]):
    """Also gives a single feature's output, by its name, without waiting before."""


class ShardedHashEmbeddingBagCollection(ShardedHashModule[KeyedTensor]):
    """See HashEmbeddingBagCollection; output is that of the whole collection, on every rank for its own batch."""

    tables_name = "embedding_bags"
    awaitable = PooledAwaitable

    def __init__(
        self,
        module: HashEmbeddingBagCollection,
        plan: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        super().__init__(module, plan, env, fused_params, device)
        self._is_weighted = module.is_weighted()
        self._output = BagOutput(self._configs)

    def embedding_bag_configs(self) -> list[Any]:
        return self._configs

    def is_weighted(self) -> bool:
        return self._is_weighted

    def _prepare(self, ctx: HashContext, features: Mapping[str, JaggedTensor]) -> None:
        """All bags of a group, feature by feature, so that they are pooled by one operator."""
        for group in self._groups:
            parts = [part for number in group for part in self._features_of(ctx, features, number)]
            ctx.bags.append(
                BagIndex(
                    rows=torch.cat([rows for rows, _ in parts]),
                    offsets=to_device(join_offsets([offsets for _, offsets in parts]), self._device),
                    sizes=[offsets.numel() - 1 for _, offsets in parts],
                )
            )

    def _features_of(
        self, ctx: HashContext, features: Mapping[str, JaggedTensor], number: int
    ) -> list[tuple[Tensor, Tensor]]:
        """Of each feature of a column shard: the rows of its values in the group's answer, and its offsets."""
        table = self._shards[number].table
        jagged = [features[feature] for feature in self._table(table).config.feature_names]
        rows = ctx.rows[number].split([part.values().numel() for part in jagged])
        return [(part_rows, part.offsets()) for part_rows, part in zip(rows, jagged)]

    def _local_output(self, features: KeyedJaggedTensor) -> KeyedTensor:
        tables = self.embedding_bags
        return local_bags(
            features, self._configs, tables, self._is_weighted, self.training, self._output, self._table_groups
        )

    def _remote_output(self, ctx: HashContext, answers: tuple[Tensor, ...]) -> KeyedTensor:
        assert ctx.features is not None
        per_feature: dict[str, JaggedTensor] = ctx.features.to_dict()
        pooled: dict[tuple[int, str], Tensor] = {}
        for group, bags, rows in zip(self._groups, ctx.bags, answers):
            names = [
                (number, f) for number in group for f in self._table(self._shards[number].table).config.feature_names
            ]
            weights = None
            if self._is_weighted:
                weights = torch.cat([per_feature[feature].weights() for _, feature in names])
                weights = to_device(weights, self._device).float()
            sums = sum_bags(rows, bags.rows, bags.offsets, weights).split(bags.sizes)
            pooled.update(zip(names, sums))
        values = []
        for config in self._configs:
            for feature in config.feature_names:
                columns = [pooled[number, feature] for number in self._shards_of[config.name]]
                bag = columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)
                if config.pooling == PoolingType.MEAN:
                    lengths = to_device(per_feature[feature].offsets().diff(), self._device)
                    bag = bag / lengths.clamp(min=1).unsqueeze(1)
                values.append(bag)
        return self._output.join(values, ctx.features)


class HashEmbeddingBagCollectionSharder(HashSharder[HashEmbeddingBagCollection]):
    """Gives HashEmbeddingBagCollection to torchrec's planner and DistributedModelParallel."""

    collection = HashEmbeddingBagCollection
    sharded = ShardedHashEmbeddingBagCollection
