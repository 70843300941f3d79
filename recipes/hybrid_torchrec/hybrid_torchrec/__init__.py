"""Embedding tables that take any 64-bit id, in the memory of one device.

Names of this module need PyTorch only; ``hybrid_torchrec.modules``, ``.distributed`` and ``.checkpoint`` need TorchRec.
"""

from hybrid_torchrec.errors import HashTableError, TableFull, VersionTooOld
from hybrid_torchrec.initializers import Constant, Initializer, Normal, TruncatedNormal, Uniform
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

__version__ = "0.1.0"
__all__ = [
    "LFU", "LRU", "TTL", "AdmissionPolicy", "AdmitAfter", "AdmitAll", "AdmitWithProbability", "Constant", "CustomScore",
    "EvictionPolicy", "HashTable", "HashTableError", "Initializer", "Normal", "OptimizerSpec", "RowBatch", "RowStats",
    "Score", "TableConfig", "TableFull", "TruncatedNormal", "Uniform", "VersionTooOld", "__version__",
    "library_directory", "load",
]  # fmt: skip

load()
