"""Collections of cached tables, with torchrec's forward signatures."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hybrid_torchrec.modules.config import HashEmbeddingBagConfig, HashEmbeddingConfig, table_config
from hybrid_torchrec.modules.embedding import HashEmbeddingCollection
from hybrid_torchrec.modules.embeddingbag import HashEmbeddingBagCollection
from hybrid_torchrec.modules.ids import joined_ids
from hybrid_torchrec.modules.table import TableModule, TablePart
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.table import TableConfig
from torch import Tensor, nn
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from torchrec_embcache.cache import CachedTable
from torchrec_embcache.config import CacheConfig


@dataclass
class CacheFields:
    """What a cached table has beside a hash table's fields; max_rows and eviction must be None.

    Args:
        cache_rows: rows in device memory, over all ranks (each has its share).
        host_rows: rows in host memory, over all ranks; None: all that are not on the device.
        folder: of the rows on disk; every shard has a folder of its own in it. None: no disk.
        slab_bytes, io_threads, evict_share: see CacheConfig.
    """

    cache_rows: int = 0
    host_rows: int | None = None
    folder: str | Path | None = None
    slab_bytes: int = CacheConfig.slab_bytes
    io_threads: int = CacheConfig.io_threads
    evict_share: float = CacheConfig.evict_share

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        self.check()

    def check(self) -> None:
        """Raises ValueError for settings of which no cached table can be made."""
        config: Any = self
        given = CacheConfig(
            cache_rows=self.cache_rows,
            host_rows=self.host_rows,
            folder=self.folder,
            evict_share=self.evict_share,
            slab_bytes=self.slab_bytes,
            io_threads=self.io_threads,
        )
        given.check(table_config(config, OptimizerSpec()))

    def cache_of(self, table: str, shard: str, shares: int) -> CacheConfig:
        """The tiers of one of ``shares`` shards."""
        return CacheConfig(
            cache_rows=-(-self.cache_rows // shares),
            host_rows=None if self.host_rows is None else -(-self.host_rows // shares),
            folder=None if self.folder is None else Path(self.folder) / table / shard,
            evict_share=self.evict_share,
            slab_bytes=self.slab_bytes,
            io_threads=self.io_threads,
        )


@dataclass
class EmbCacheEmbeddingBagConfig(CacheFields, HashEmbeddingBagConfig):
    """EmbeddingBagConfig of a table that may be larger than device and host memory."""


@dataclass
class EmbCacheEmbeddingConfig(CacheFields, HashEmbeddingConfig):
    """EmbeddingConfig of a table that may be larger than device and host memory."""


EmbCacheConfig = EmbCacheEmbeddingBagConfig | EmbCacheEmbeddingConfig


def cached_table(
    config: EmbCacheConfig, table: TableConfig, device: torch.device, *, shard: str, shares: int
) -> CachedTable:
    return CachedTable(table, config.cache_of(config.name, shard, shares), device)


class CachedTableModule(TableModule):
    """An unsharded table of a collection."""

    config: EmbCacheConfig

    def __init__(self, config: EmbCacheConfig, device: torch.device | str | None = None) -> None:
        if not isinstance(config, CacheFields):
            raise TypeError(
                f"table {config.name}: its config does not say how many rows to cache; use EmbCacheEmbeddingBagConfig "
                "or EmbCacheEmbeddingConfig with cache_rows="
            )
        config.check()
        if config.folder is not None:
            check_folder(Path(config.folder), config.name)
        super().__init__(config, device)

    def add_part(self, config: TableConfig, column: int, device: torch.device) -> None:
        self._parts.append(TablePart(cached_table(self.config, config, device, shard="whole", shares=1), column, self))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TableModule:
        nn.Module._apply(self, fn, recurse)
        for part in self._parts:
            if part.table.device.type != self.weight.device.type:
                raise RuntimeError(
                    f"table {self.config.name} has rows on {part.table.device}: move the collection to "
                    f"{self.weight.device} before its first use, or pass device="
                )
        return self


def check_folder(folder: Path, table: str) -> None:
    """Raises ValueError where no folder can be made for a table's rows. Nothing is made yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"table {table}: folder {folder} cannot be made: {there} is a file; choose another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"table {table}: folder {folder} cannot be written: no permission in {there}; choose another path or "
            "change its owner"
        )


class CachedCollection(abc.ABC):
    """What the collections share."""

    table_type: type[TableModule] = CachedTableModule

    @abc.abstractmethod
    def tables(self) -> Mapping[str, TableModule]: ...

    def cached_tables(self) -> dict[str, list[CachedTable]]:
        """The tables of this process by name; made if they are not yet."""
        return cached_tables(self.tables())

    def prefetch(self, features: KeyedJaggedTensor) -> None:
        """A later batch. forward must get the batches in the order in which they were prefetched."""
        prefetch_local(features, self.tables())

    def close(self) -> None:
        """Flushes to disk and stops the threads; the collection cannot be used any more."""
        for tables in self.cached_tables().values():
            for table in tables:
                table.close()


class EmbCacheEmbeddingBagCollection(CachedCollection, HashEmbeddingBagCollection):
    """HashEmbeddingBagCollection of cached tables.

    forward waits for rows that are not on the device; call prefetch for the next batches before it, or train with
    EmbCacheTrainPipelineSparseDist, which does.
    """

    tables = HashEmbeddingBagCollection.tables


class EmbCacheEmbeddingCollection(CachedCollection, HashEmbeddingCollection):
    """HashEmbeddingCollection of cached tables; see EmbCacheEmbeddingBagCollection."""

    tables = HashEmbeddingCollection.tables


def cached_tables(modules: Mapping[str, TableModule]) -> dict[str, list[CachedTable]]:
    found: dict[str, list[CachedTable]] = {}
    for name, module in modules.items():
        found[name] = []
        for part in module.parts:
            assert isinstance(part.table, CachedTable)
            found[name].append(part.table)
    return found


def prefetch_local(features: KeyedJaggedTensor, modules: Mapping[str, TableModule]) -> None:
    """All rows are in this process: the ids of each table in the order in which its features are looked up."""
    per_feature: dict[str, JaggedTensor] = features.to_dict()
    for module in modules.values():
        ids = [per_feature[feature].values() for feature in module.config.feature_names]
        table: Any = module.whole.table
        table.prefetch(joined_ids(ids, module.config.name))
