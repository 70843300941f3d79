"""Cached tables in the places of the resident ones of hybrid_torchrec's checkpoint tests:

cached_tables.py kills FOLDER FIRST_SEED COUNT
cached_tables.py ranks FOLDER
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import shared  # noqa: F401 (makes helpers of hybrid_torchrec's tests importable)
from hybrid_torchrec.checkpoint import TableShard
from hybrid_torchrec.table import HashTable
from small_tables import make_table
from torch import nn
from torchrec_embcache import CacheConfig, CachedTable

CACHE_ROWS = 45  # a batch has 40 ids
HOST_ROWS = 12


def cached_table(
    kind: str = "adam", *, folder: Path | None, rows: int = CACHE_ROWS, device: str = "cpu", **kept: object
) -> CachedTable:
    """make_table's, with rows on the device, in host memory and on disk; without a folder, on the first two."""
    cache = CacheConfig(
        cache_rows=rows,
        host_rows=HOST_ROWS if folder else None,
        folder=folder,
        evict_share=0.0,
        slab_bytes=1 << 12,
        io_threads=2,
    )
    return CachedTable(make_table(kind, **kept).config, cache, device)  # type: ignore[arg-type]


def kills(folder: Path, first: int, count: int) -> None:
    """fault_kills.py, with tables of three tiers."""
    import fault_kills

    trainers = folder / "killed/rows"  # where a trainer has its tiers; what is left of them is opened by the check
    parent = os.getpid()
    with tempfile.TemporaryDirectory() as stores:

        def new_table() -> CachedTable:
            rows = trainers
            if os.getpid() == parent:
                rows = Path(tempfile.mkdtemp(dir=stores)) / "rows"
                if trainers.exists() and any((folder / "killed/saved").glob("*/MANIFEST.json")):
                    trainers.rename(rows)
            return cached_table("rowwise_adagrad", folder=rows)

        fault_kills.resident_table = lambda: make_table("rowwise_adagrad")
        fault_kills.new_table = new_table
        fault_kills.main(folder, first, count)


def ranks(folder: Path) -> None:
    """reshard_ranks.py: cached tables on 4 and 2 ranks, loaded by 2 and 8; what they are compared with is resident."""
    import reshard_ranks

    def cached(kind: str, **kept: object) -> HashTable:
        return cached_table(kind, folder=Path(tempfile.mkdtemp(dir=folder)) / "rows", **kept)

    resident = reshard_ranks.make_table
    for saved, loaded in ((4, 2), (2, 8)):
        root = folder / f"{saved}-to-{loaded}"
        expected = reshard_ranks.whole(reshard_ranks.STEPS)
        reshard_ranks.make_table = cached
        reshard_ranks.save(root, saved)
        reshard_ranks.load(root, loaded, expected, reshard_ranks.erased_by_first(saved))
        reshard_ranks.make_table = resident
        print(f"{saved} to {loaded}: ok", flush=True)


def models(folder: Path) -> None:
    """model_ranks.py: sharded models with collections of cached tables, whose rows do not all fit on the devices."""
    import hybrid_torchrec.distributed
    import model_ranks
    import sharded_model
    from torchrec_embcache.distributed import get_default_embcache_sharders
    from torchrec_embcache.modules import (
        EmbCacheEmbeddingBagCollection,
        EmbCacheEmbeddingBagConfig,
        EmbCacheEmbeddingCollection,
        EmbCacheEmbeddingConfig,
    )

    def tiers() -> dict[str, object]:
        rows = {"cache_rows": 34, "host_rows": 2}
        return {**rows, "folder": tempfile.mkdtemp(dir=folder), "slab_bytes": 1 << 12, "io_threads": 2}

    sharded_model.HashEmbeddingBagConfig = lambda **fields: EmbCacheEmbeddingBagConfig(**fields, **tiers())
    sharded_model.HashEmbeddingConfig = lambda **fields: EmbCacheEmbeddingConfig(**fields, **tiers())
    sharded_model.HashEmbeddingBagCollection = EmbCacheEmbeddingBagCollection
    sharded_model.HashEmbeddingCollection = EmbCacheEmbeddingCollection
    hybrid_torchrec.distributed.get_default_hybrid_sharders = get_default_embcache_sharders
    trained = model_ranks.table_shards

    def cached_shards(model: nn.Module) -> dict[str, TableShard]:
        shards = trained(model)
        assert all(isinstance(shard.table, CachedTable) for shard in shards.values())
        return shards

    model_ranks.table_shards = cached_shards
    model_ranks.main(folder)


if __name__ == "__main__":
    from children import one_thread

    one_thread()
    if sys.argv[1] == "kills":
        kills(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        {"ranks": ranks, "models": models}[sys.argv[1]](Path(sys.argv[2]))
