"""Hash tables over several ranks: sharders for DistributedModelParallel, and the training pipeline."""

from collections.abc import Mapping
from typing import Any

from torch import nn
from torchrec.distributed.model_parallel import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingEnv

from hybrid_torchrec.distributed.embedding import HashEmbeddingCollectionSharder, ShardedHashEmbeddingCollection
from hybrid_torchrec.distributed.embeddingbag import (
    HashEmbeddingBagCollectionSharder,
    ShardedHashEmbeddingBagCollection,
)
from hybrid_torchrec.distributed.pipeline import HybridTrainPipelineSparseDist

__all__ = [
    "HashEmbeddingBagCollectionSharder",
    "HashEmbeddingCollectionSharder",
    "HybridTrainPipelineSparseDist",
    "ShardedHashEmbeddingBagCollection",
    "ShardedHashEmbeddingCollection",
    "get_default_hybrid_sharders",
]


def get_default_hybrid_sharders(
    host_env: ShardingEnv | None = None, fused_params: Mapping[str, Any] | None = None
) -> list[ModuleSharder[nn.Module]]:
    """Sharders of hash collections, and torchrec's default ones for everything else in the model.

    Args:
        host_env: of a gloo group, taken from code of the documents' stack and not needed: ids travel as rows do, by the
            group that the model is sharded over.
        fused_params: see HashSharder; of hash tables without an optimizer of their own.
    """
    if host_env is not None and not isinstance(host_env, ShardingEnv):
        raise TypeError(f"host_env must be a ShardingEnv or None, got {type(host_env).__name__}; fused_params= by name")
    return [
        HashEmbeddingBagCollectionSharder(fused_params),
        HashEmbeddingCollectionSharder(fused_params),
        *get_default_sharders(),
    ]
