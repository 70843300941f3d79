"""Cached tables over several ranks: sharded collections and their sharders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from hybrid_torchrec.distributed import (
    HashEmbeddingBagCollectionSharder,
    HashEmbeddingCollectionSharder,
    ShardedHashEmbeddingBagCollection,
    ShardedHashEmbeddingCollection,
)
from hybrid_torchrec.distributed.context import OwnedIds, unwrap
from hybrid_torchrec.distributed.sharded import ShardedHashModule
from hybrid_torchrec.distributed.sharder import HashSharder
from hybrid_torchrec.table.copying import copy_into
from torch import nn
from torchrec.distributed.embedding_types import KJTList
from torchrec.distributed.model_parallel import get_default_sharders
from torchrec.distributed.types import ModuleSharder

from torchrec_embcache.cache import CachedTable
from torchrec_embcache.modules import (
    EmbCacheEmbeddingBagCollection,
    EmbCacheEmbeddingCollection,
    cached_table,
    cached_tables,
    prefetch_local,
)


class ShardedCached(ShardedHashModule[Any]):
    """What the sharded collections of cached tables share."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cache_tables()

    def _cache_tables(self) -> None:
        """Puts cached tables in the place of the parts' tables, which hold no rows unless the module had some."""
        for table in self._tables():
            for shard in table.shards:
                part = table.part_at(shard.column)
                if part is None:
                    continue
                share = f"columns-{shard.column}-ids-{shard.ranks.index(table.rank)}-of-{len(shard.ranks)}"
                made = cached_table(table.config, part.table.config, self._device, shard=share, shares=len(shard.ranks))
                copy_into(part.table, made)
                part.table = made

    def cached_tables(self) -> dict[str, list[CachedTable]]:
        """This rank's parts of the tables, by name."""
        return cached_tables({table.config.name: table for table in self._tables()})

    def prefetch(self, dist_input: KJTList) -> None:
        """A later batch, as input_dist gives it; compute must get the batches in the same order."""
        owned = unwrap(dist_input)
        if not isinstance(owned, OwnedIds):
            prefetch_local(owned, {table.config.name: table for table in self._tables()})
            return
        ends, counts = owned.counts.flatten().cumsum(0).view_as(owned.counts).tolist(), owned.counts.tolist()
        for number, shard in enumerate(self._shards):
            part = self._table(shard.table).part_at(shard.column)
            if part is None:
                continue
            blocks = [
                owned.ids[ends[rank][number] - counts[rank][number] : ends[rank][number]]
                for rank in range(self._world_size)
            ]
            assert isinstance(part.table, CachedTable)
            part.table.prefetch(torch.cat(blocks))

    def close(self) -> None:
        """Flushes this rank's rows to disk and stops the threads; the module cannot be used any more."""
        for tables in self.cached_tables().values():
            for table in tables:
                table.close()


class ShardedEmbCacheEmbeddingBagCollection(ShardedCached, ShardedHashEmbeddingBagCollection):
    """See EmbCacheEmbeddingBagCollection."""


class ShardedEmbCacheEmbeddingCollection(ShardedCached, ShardedHashEmbeddingCollection):
    """See EmbCacheEmbeddingCollection."""


class CacheSharder(HashSharder[Any]):
    """What the sharders share: torchrec's planner reckons with cache_rows."""

    def shardable_parameters(self, module: Any) -> dict[str, nn.Parameter]:
        smaller = {}
        for name, weight in super().shardable_parameters(module).items():
            rows = module.tables()[name].config.cache_rows
            smaller[name] = nn.Parameter(torch.empty((rows, weight.shape[1]), dtype=weight.dtype, device="meta"))
            smaller[name].__dict__.update(weight.__dict__)  # the optimizers that were applied
        return smaller


class EmbCacheEmbeddingBagCollectionSharder(CacheSharder):
    """Gives EmbCacheEmbeddingBagCollection to torchrec's planner and DistributedModelParallel."""

    collection = EmbCacheEmbeddingBagCollection
    sharded = ShardedEmbCacheEmbeddingBagCollection


class EmbCacheEmbeddingCollectionSharder(CacheSharder):
    """Gives EmbCacheEmbeddingCollection to torchrec's planner and DistributedModelParallel."""

    collection = EmbCacheEmbeddingCollection
    sharded = ShardedEmbCacheEmbeddingCollection


def get_default_embcache_sharders(fused_params: Mapping[str, Any] | None = None) -> list[ModuleSharder[nn.Module]]:
    """Sharders of cached and of hash collections, and torchrec's default ones for everything else in the model."""
    return [
        EmbCacheEmbeddingBagCollectionSharder(fused_params),
        EmbCacheEmbeddingCollectionSharder(fused_params),
        HashEmbeddingBagCollectionSharder(fused_params),
        HashEmbeddingCollectionSharder(fused_params),
        *get_default_sharders(),
    ]
