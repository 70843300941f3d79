"""Sharded HashEmbeddingBagCollection and its sharder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchrec.distributed.types import LazyAwaitable, LazyGetItemMixin, LazyNoWait, ParameterSharding, ShardingEnv
from torchrec.modules.embedding_configs import PoolingType
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

from hybrid_torchrec.distributed.context import BagIndex, HashContext
from hybrid_torchrec.distributed.exchange import RowExchange
from hybrid_torchrec.distributed.sharded import ShardedHashModule
from hybrid_torchrec.distributed.sharder import HashSharder
from hybrid_torchrec.modules.embeddingbag import BagOutput, HashEmbeddingBagCollection, local_bags
from hybrid_torchrec.modules.pooling import join_offsets, sum_bags


class ShardedHashEmbeddingBagCollection(ShardedHashModule[KeyedTensor]):
    """See HashEmbeddingBagCollection; output is that of the whole collection, on every rank for its own batch."""

    tables_name = "embedding_bags"

    def __init__(
        self,
        module: HashEmbeddingBagCollection,
        plan: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: Mapping[str, Any] | None,
        device: torch.device,
    ) -> None:
        super().__init__(module.embedding_bag_configs(), module.tables(), plan, env, fused_params, device)
        self._bag_configs = module.embedding_bag_configs()
        self._is_weighted = module.is_weighted()
        self._output = BagOutput(self._bag_configs)

    def embedding_bag_configs(self) -> list[Any]:
        return self._bag_configs

    def is_weighted(self) -> bool:
        return self._is_weighted

    def _prepare(self, ctx: HashContext, features: Mapping[str, JaggedTensor]) -> None:
        """All bags of a group, feature by feature, so that they are pooled by one operator."""
        for group in self._groups:
            parts = [part for number in group for part in self._features_of(ctx, features, number)]
            ctx.bags.append(
                BagIndex(
                    rows=torch.cat([rows for rows, _ in parts]),
                    offsets=join_offsets([offsets for _, offsets in parts]),
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

    def _local_output(self, features: KeyedJaggedTensor) -> LazyAwaitable[KeyedTensor]:
        tables = self.embedding_bags
        return LazyNoWait(
            local_bags(features, self._bag_configs, tables, self._is_weighted, self.training, self._output)
        )

    def _remote_output(self, ctx: HashContext, exchange: RowExchange, token: Tensor) -> LazyAwaitable[KeyedTensor]:
        return _PooledAwaitable(self, ctx, exchange, token)

    def pool(self, ctx: HashContext, answers: tuple[Tensor, ...]) -> KeyedTensor:
        assert ctx.features is not None
        per_feature: dict[str, JaggedTensor] = ctx.features.to_dict()
        pooled: dict[tuple[int, str], Tensor] = {}
        for group, bags, rows in zip(self._groups, ctx.bags, answers):
            names = [
                (number, f) for number in group for f in self._table(self._shards[number].table).config.feature_names
            ]
            weights = None
            if self._is_weighted:
                weights = torch.cat([per_feature[feature].weights() for _, feature in names]).float()
            sums = sum_bags(rows, bags.rows, bags.offsets, weights).split(bags.sizes)
            pooled.update(zip(names, sums))
        values = []
        for config in self._bag_configs:
            for feature in config.feature_names:
                columns = [pooled[number, feature] for number in self._shards_of[config.name]]
                bag = columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)
                if config.pooling == PoolingType.MEAN:
                    bag = bag / per_feature[feature].offsets().diff().clamp(min=1).unsqueeze(1)
                values.append(bag)
        return self._output.join(values, ctx.features)


class _PooledAwaitable(LazyGetItemMixin[str, Tensor], LazyAwaitable[KeyedTensor]):
    def __init__(
        self, module: ShardedHashEmbeddingBagCollection, ctx: HashContext, exchange: RowExchange, token: Tensor
    ) -> None:
        super().__init__()
        self._module = module
        self._ctx = ctx
        self._exchange = exchange
        self._token = token

    def _wait_impl(self) -> KeyedTensor:
        return self._module.pool(self._ctx, self._exchange.wait(self._token))


class HashEmbeddingBagCollectionSharder(HashSharder[HashEmbeddingBagCollection]):
    """Gives HashEmbeddingBagCollection to torchrec's planner and DistributedModelParallel."""

    def shard(
        self,
        module: HashEmbeddingBagCollection,
        params: Mapping[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> ShardedHashEmbeddingBagCollection:
        return ShardedHashEmbeddingBagCollection(module, params, env, self.fused_params, device or torch.device("cpu"))

    @property
    def module_type(self) -> type[HashEmbeddingBagCollection]:
        return HashEmbeddingBagCollection
