"""Embedding tables that take any 64-bit id, in the memory of one device.

``hybrid_torchrec.table`` and what it is configured by need PyTorch only; ``modules``, ``distributed`` and
``checkpoint`` need TorchRec.
"""

from hybrid_torchrec.library import library_directory, load

__version__ = "0.1.0"
__all__ = ["__version__", "library_directory", "load"]

load()
