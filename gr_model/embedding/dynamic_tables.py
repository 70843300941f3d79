"""Tables that make a row when an id is first seen: hash (hybrid_torchrec) and embcache (torchrec_embcache).

One process has them under torchrec's DistributedModelParallel too, so that there is one way through the code.
Ids without a row (never trained, not admitted, or evicted) read the table's default row.
Shape suffixes: as in lookup.py.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from gr_model.config import ConfigError, EmbeddingConfig
from gr_model.embedding.lookup import FEATURE, CollectionTable
from gr_model.runtime.world import World

PACKAGES = {"hash": "hybrid_torchrec", "embcache": "torchrec_embcache"}


class DynamicTable(CollectionTable):
    """Rows follow from the seed and the id alone until they are trained, so any number of processes has the same."""

    def __init__(self, config: EmbeddingConfig, rows: int, dim: int) -> None:
        super().__init__(rows, dim)
        self.config = config
        self.world = World()  # until the table is sharded
        try:
            importlib.import_module(f"{PACKAGES[config.kind]}.modules")
        except ImportError as error:
            raise ConfigError(
                f"embedding.kind={config.kind} needs {PACKAGES[config.kind]} ({error}); the images have it\n"
                "  next: the same command with embedding.kind=static, or in an image"
            ) from error

    def build(self, seed: int) -> None:
        """Makes the collection that is to be sharded."""
        self.collection = _collection(self.config, self.rows, self.dim, seed)

    def ids_device(self, device: torch.device) -> torch.device:
        """Distinct ids of a hash table are found and routed on the host, which would wait for a device to know how
        many they are; those of other processes' tables travel from host to host.
        """
        return torch.device("cpu") if self.config.kind == "hash" else device

    def in_order(self, distinct_U: np.ndarray) -> np.ndarray:
        """By the process that has them, where there are several: rows then come in the order of the ids."""
        shards = {shard for module in sharded_tables(self) for shard in module.shards}
        if self.config.kind != "hash" or self.world.size == 1 or len(shards) != 1:
            return distinct_U
        (shard,) = shards
        owner_U = shard.owner(torch.from_numpy(distinct_U)).numpy()
        return np.concatenate([distinct_U[owner_U == rank] for rank in range(self.world.size)])

    def all_rows(self, chunk: int) -> Iterator[torch.Tensor]:
        """Read where they are: nothing comes into a cache, so rows that were fetched ahead keep their places."""
        for start in range(0, self.rows, chunk):
            ids_U = torch.arange(start, min(start + chunk, self.rows))
            rows_UD = torch.zeros(len(ids_U), self.dim, device=self.device)
            for _, shard, part in local_shards(self):
                mine = (shard.owner(ids_U) == self.world.rank).nonzero()[:, 0]
                columns = slice(shard.column, shard.column + shard.width)
                rows_UD[mine.to(self.device), columns] = rows_of(part.table, ids_U[mine]).to(self.device)
            yield self.world.sum(rows_UD)

    def close(self) -> None:
        """Stops the threads of a cached table."""
        if hasattr(self.collection, "close"):
            self.collection.close()


def sharded_tables(model: nn.Module) -> Iterator[Any]:
    from hybrid_torchrec.distributed.table import ShardedTableModule

    return (module for module in model.modules() if isinstance(module, ShardedTableModule))


def local_shards(model: nn.Module) -> Iterator[tuple[Any, Any, Any]]:
    """(table, column shard, part) of what this process has rows of."""
    for module in sharded_tables(model):
        for shard in module.shards:
            part = module.part_at(shard.column)
            if part is not None:
                yield module, shard, part


def rows_of(table: Any, ids_U: torch.Tensor) -> torch.Tensor:
    """The rows [U, D] of any ids, by hybrid_torchrec's HashTable; of a cached one from whatever tier has them."""
    if table.resident:
        return table.lookup(table.find(ids_U).clamp_(min=0))
    batch, found_U = table.read(ids_U)
    rows_UD = table.lookup(torch.zeros(1, dtype=torch.int64, device=table.device)).repeat(len(ids_U), 1)
    rows_UD[found_U.nonzero()[:, 0].to(table.device)] = batch.weights.float()
    return rows_UD


def sharder(config: EmbeddingConfig) -> Any:
    if config.kind == "embcache":
        from torchrec_embcache.distributed import EmbCacheEmbeddingCollectionSharder

        return EmbCacheEmbeddingCollectionSharder()
    from hybrid_torchrec.distributed import HashEmbeddingCollectionSharder

    return HashEmbeddingCollectionSharder()


def start_empty(model: nn.Module) -> None:
    """Rows that an earlier run left on disk are not this run's."""
    for _, _, part in local_shards(model):
        if not part.table.resident and len(part.table):
            part.table.erase(part.table.ids())


def watcher(model: nn.Module, config: EmbeddingConfig) -> Callable[[Any], Callable[[], None]] | None:
    """What carries the figures of this process's tables over to a hybrid_torchrec.metrics.Metrics; None without any."""
    if config.kind not in PACKAGES:
        return None

    def watch(metrics: Any) -> Callable[[], None]:
        from hybrid_torchrec.table_metrics import TableMetrics

        tables = {f"{FEATURE}.{shard.column}": part.table for _, shard, part in local_shards(model)}
        whole = TableMetrics(metrics, tables)
        if config.kind == "hash":
            return whole.update
        from torchrec_embcache.metrics import CacheMetrics

        cached = CacheMetrics(metrics, tables)

        def update() -> None:
            whole.update()
            cached.update()

        return update

    return watch


def saved(model: nn.Module, world: World) -> Any:
    """The rows of this process as torch.distributed.checkpoint saves and loads them, on any number of processes."""
    from hybrid_torchrec.checkpoint import HashTables, TableShard

    class Whole(TableShard):
        """Of a cached table too: what is saved is read by id, which finds rows in every tier."""

        def __post_init__(self) -> None:
            pass

    found = {}
    for table, shard, part in local_shards(model):
        name = FEATURE if len(table.shards) == 1 else f"{FEATURE}.columns_{shard.column}"
        found[name] = Whole(part.table, shard.ranks.index(world.rank), len(shard.ranks))
    return HashTables(found)


def _collection(config: EmbeddingConfig, rows: int, dim: int, seed: int) -> Any:
    from hybrid_torchrec import OptimizerSpec

    settings: dict[str, Any] = {
        "name": FEATURE,
        "num_embeddings": rows,
        "embedding_dim": dim,
        "feature_names": [FEATURE],
        "seed": seed,
        "optimizer": OptimizerSpec(kind=config.optimizer, lr=config.lr, eps=config.eps),
        "initializer": _initializer(config),
        "admission": _admission(config),
        "initial_capacity": config.capacity or None,
    }
    meta = torch.device("meta")
    if config.kind == "embcache":
        from torchrec_embcache.modules import EmbCacheEmbeddingCollection, EmbCacheEmbeddingConfig

        cached = EmbCacheEmbeddingConfig(
            **settings, cache_rows=config.cache_rows, host_rows=config.host_rows or None, folder=config.folder or None
        )
        return EmbCacheEmbeddingCollection([cached], device=meta)
    from hybrid_torchrec.modules import HashEmbeddingCollection, HashEmbeddingConfig

    table = HashEmbeddingConfig(**settings, max_rows=config.max_rows or None, eviction=_eviction(config))
    return HashEmbeddingCollection([table], device=meta)


def _initializer(config: EmbeddingConfig) -> Any:
    from hybrid_torchrec import Constant, Normal, TruncatedNormal, Uniform

    wide = config.init_std * math.sqrt(3)
    return {
        "normal": Normal(std=config.init_std),
        "truncated_normal": TruncatedNormal(std=config.init_std),
        "uniform": Uniform(low=-wide, high=wide),
        "zeros": Constant(value=0.0),
    }[config.initializer]


def _admission(config: EmbeddingConfig) -> Any:
    from hybrid_torchrec import AdmitAfter, AdmitAll, AdmitWithProbability

    if config.admission == "after":
        return AdmitAfter(sightings=config.admit_after)
    if config.admission == "probability":
        return AdmitWithProbability(probability=config.admit_probability)
    return AdmitAll()


def _eviction(config: EmbeddingConfig) -> Any:
    from hybrid_torchrec import LFU, LRU, TTL

    return {"none": None, "lru": LRU(), "lfu": LFU(), "ttl": TTL(steps=config.ttl)}[config.eviction]
