"""A kernel by its place: a process whose Triton cannot import its module can still launch it (cubins/)."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    module: str  # below gr_ops.cuda
    name: str

    def load(self) -> Any:
        """Of this process's Triton, which its module must suit."""
        return _load(self)


@cache
def _load(kernel: Kernel) -> Any:
    return getattr(importlib.import_module(f"gr_ops.cuda.{kernel.module}"), kernel.name)
