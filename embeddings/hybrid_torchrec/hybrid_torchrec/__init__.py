"""Embedding tables that take any 64-bit id, in the memory of one device.

Names of this module need PyTorch only, but for those of ``hybrid_torchrec.modules`` and ``.distributed``, which are
loaded when they are asked for; these and ``.checkpoint`` need TorchRec.
"""

import importlib
from typing import TYPE_CHECKING

from hybrid_torchrec.errors import HashTableError, TableFull, VersionTooOld
from hybrid_torchrec.initializers import Constant, Filled, Initializer, Normal, TruncatedNormal, Uniform
from hybrid_torchrec.library import library_directory, load
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import (
    LFU,
    LRU,
    TTL,
    AdmissionPolicy,
    AdmitAfter,
    AdmitAll,
    AdmitWithProbability,
    CustomScore,
    EvictionPolicy,
    RowStats,
    Score,
)
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

if TYPE_CHECKING:
    from hybrid_torchrec.distributed import HybridTrainPipelineSparseDist, get_default_hybrid_sharders
    from hybrid_torchrec.modules import (
        HashEmbeddingBagCollection,
        HashEmbeddingBagConfig,
        HashEmbeddingCollection,
        HashEmbeddingConfig,
        accumulate_gradients,
        use_hash_tables,
    )

__version__ = "0.1.0"
__all__ = [
    "LFU",
    "LRU",
    "TTL",
    "AdmissionPolicy",
    "AdmitAfter",
    "AdmitAll",
    "AdmitWithProbability",
    "Constant",
    "CustomScore",
    "EvictionPolicy",
    "Filled",
    "HashEmbeddingBagCollection",
    "HashEmbeddingBagConfig",
    "HashEmbeddingCollection",
    "HashEmbeddingConfig",
    "HashTable",
    "HashTableError",
    "HybridTrainPipelineSparseDist",
    "Initializer",
    "Normal",
    "OptimizerSpec",
    "RowBatch",
    "RowStats",
    "Score",
    "TableConfig",
    "TableFull",
    "TruncatedNormal",
    "Uniform",
    "VersionTooOld",
    "__version__",
    "accumulate_gradients",
    "get_default_hybrid_sharders",
    "library_directory",
    "load",
    "use_hash_tables",
]
_IN_DISTRIBUTED = {"HybridTrainPipelineSparseDist", "get_default_hybrid_sharders"}
_IN_MODULES = {
    "HashEmbeddingBagCollection",
    "HashEmbeddingBagConfig",
    "HashEmbeddingCollection",
    "HashEmbeddingConfig",
    "accumulate_gradients",
    "use_hash_tables",
}


def __getattr__(name: str) -> object:
    for module, names in (("modules", _IN_MODULES), ("distributed", _IN_DISTRIBUTED)):
        if name in names:
            return getattr(importlib.import_module(f"hybrid_torchrec.{module}"), name)
    raise AttributeError(f"module 'hybrid_torchrec' has no attribute {name!r}")


load()
