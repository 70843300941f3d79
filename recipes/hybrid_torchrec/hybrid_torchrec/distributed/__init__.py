"""Hash tables over several ranks: sharders for DistributedModelParallel, and the training pipeline."""

from collections.abc import Mapping
from typing import Any

from torch import nn
from torchrec.distributed.model_parallel import get_default_sharders
from torchrec.distributed.types import ModuleSharder

from hybrid_torchrec.distributed.embedding import HashEmbeddingCollectionSharder, ShardedHashEmbeddingCollection
from hybrid_torchrec.distributed.embeddingbag import (
    HashEmbeddingBagCollectionSharder,
    ShardedHashEmbeddingBagCollection,
)
from hybrid_torchrec.distributed.pipeline import HybridTrainPipelineSparseDist

__all__ = [
    "HashEmbeddingBagCollectionSharder", "HashEmbeddingCollectionSharder", "HybridTrainPipelineSparseDist",
    "ShardedHashEmbeddingBagCollection", "ShardedHashEmbeddingCollection", "get_default_hybrid_sharders",
]  # fmt: skip


def get_default_hybrid_sharders(fused_params: Mapping[str, Any] | None = None) -> list[ModuleSharder[nn.Module]]:
    """Sharders of hash collections, and torchrec's default ones for everything else in the model.

    fused_params: see HashSharder; of hash tables without an optimizer of their own.
    """
    return [
        HashEmbeddingBagCollectionSharder(fused_params),
        HashEmbeddingCollectionSharder(fused_params),
        *get_default_sharders(),
    ]
