"""Collections of hash tables, in the places of torchrec's."""

from hybrid_torchrec.modules.collection import accumulate_gradients, hash_tables
from hybrid_torchrec.modules.config import HashEmbeddingBagConfig, HashEmbeddingConfig
from hybrid_torchrec.modules.convert import use_hash_tables
from hybrid_torchrec.modules.embedding import HashEmbeddingCollection
from hybrid_torchrec.modules.embeddingbag import HashEmbeddingBagCollection
from hybrid_torchrec.modules.optimizer import HashOptimizer

__all__ = [
    "HashEmbeddingBagCollection",
    "HashEmbeddingBagConfig",
    "HashEmbeddingCollection",
    "HashEmbeddingConfig",
    "HashOptimizer",
    "accumulate_gradients",
    "hash_tables",
    "use_hash_tables",
]
