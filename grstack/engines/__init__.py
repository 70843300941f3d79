"""Where a plan is carried out: a container engine, this host, or a fake one for tests."""

from grstack.engines.base import Engine, Inputs, Mount
from grstack.engines.find import find_engine

__all__ = ["Engine", "Inputs", "Mount", "find_engine"]
