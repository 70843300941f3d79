"""Caching a table carries all that it holds, of every policy that cached tables take."""

from __future__ import annotations

from pathlib import Path

import pytest
import shared  # noqa: F401 (makes helpers of hybrid_torchrec's tests importable)
import torch
from copied_tables import ADMISSIONS, assert_holds, config, held, on_its_way, train
from hybrid_torchrec import HashTable, OptimizerSpec
from hybrid_torchrec.table import TableConfig
from hybrid_torchrec.table.copying import copy_into
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec.distributed.types import ParameterSharding, ShardingEnv
from torchrec_embcache import CacheConfig, CachedTable
from torchrec_embcache.distributed import EmbCacheEmbeddingBagCollectionSharder
from torchrec_embcache.modules import EmbCacheEmbeddingBagCollection, EmbCacheEmbeddingBagConfig

STEPS = range(6, 12)


def cached(given: TableConfig, folder: Path | None, device: str) -> CachedTable:
    cache = CacheConfig(cache_rows=30, host_rows=8 if folder else None, folder=folder, evict_share=0.0, slab_bytes=4096)
    return CachedTable(given, cache, device)


@pytest.mark.parametrize("tiers", ["memory", "disk"])
@pytest.mark.parametrize("policy", ADMISSIONS)
def test_a_cached_table_takes_everything(policy: str, tiers: str, folder: Path, device: str) -> None:
    table = on_its_way(HashTable(config(**ADMISSIONS[policy]), device))
    made = cached(table.config, folder if tiers == "disk" else None, device)
    copy_into(table, made)
    assert_holds(made, held(table))
    for step in STEPS:
        torch.testing.assert_close(train(made, step), train(table, step))
    found, expected = held(made), held(table)
    for name in ("ids", "shows", "clicks", "last_step", "sighted ids", "sightings"):
        assert torch.equal(found[name], expected[name]), name
    torch.testing.assert_close(found["weights"], expected["weights"])
    made.close()


@pytest.mark.parametrize("policy", ADMISSIONS)
def test_a_sharded_cached_collection_takes_everything(policy: str, folder: Path, device: str) -> None:
    """From a collection that has been trained: through a resident table into a cached one, in tiers of its own."""
    given = EmbCacheEmbeddingBagConfig(
        name="t",
        embedding_dim=6,
        num_embeddings=100,
        feature_names=["f"],
        cache_rows=30,
        host_rows=8,
        folder=folder,
        optimizer=OptimizerSpec(kind="adam", lr=0.1),
        **ADMISSIONS[policy],
    )
    collection = EmbCacheEmbeddingBagCollection([given], device=torch.device(device))
    (before,) = collection.cached_tables()["t"]
    on_its_way(before)
    shard = ShardMetadata(shard_offsets=[0, 0], shard_sizes=[100, 6], placement=f"rank:0/{device}")
    plan = {"t": ParameterSharding("table_wise", "fused", [0], EnumerableShardingSpec([shard]))}
    env = ShardingEnv.from_local(1, 0)
    sharded = EmbCacheEmbeddingBagCollectionSharder().shard(collection, plan, env, torch.device(device))
    (after,) = sharded.cached_tables()["t"]
    assert after is not before
    assert_holds(after, held(before))
    for step in STEPS:
        torch.testing.assert_close(train(after, step), train(before, step))
    sharded.close()
    collection.close()
