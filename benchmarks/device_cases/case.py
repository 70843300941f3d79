"""One call of an operator, with the least that it must move and multiply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    operator: str
    shape: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]  # on the CPU
    moved_bytes: float
    flops: float = 0.0
    tolerance: float = 1e-5
