"""Mutants of AsynchronousCompleteCumsum: flags of its own, a meeting of the cores, workspace."""

from .cores import ATOMICS, BETWEEN_CORES
from .logic import LOGIC
from .memory import MEMORY
from .synchronisation import SYNCHRONISATION

MUTANTS = [*SYNCHRONISATION, *BETWEEN_CORES, *ATOMICS, *MEMORY, *LOGIC]
