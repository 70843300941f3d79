"""Mutants of JaggedToPaddedDense and DenseToJagged and of the writer, offsets and host side that they share."""

from .memory import MEMORY
from .queues import QUEUES, SYNCHRONISATION
from .splits import SPLITS
from .tiling import TILING

MUTANTS = [*SYNCHRONISATION, *QUEUES, *MEMORY, *SPLITS, *TILING]
