"""What of a launch's arguments a compiled kernel may depend on: a fact of each, its kind and what there is to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gr_ops.cuda.cubins.roles import Fact
from gr_ops.cuda.tma import Tile


def facts_of(arguments: Sequence[Any]) -> list[Fact]:
    return [_fact(x) for x in arguments]


def _fact(x: Any) -> Fact:
    if isinstance(x, torch.Tensor):
        return ["tensor", _name(x.dtype), x.data_ptr() % 16 == 0]
    if isinstance(x, Tile):
        return ["tile", _name(x.base.dtype), list(x.block)]
    if isinstance(x, (bool, int, float, str)):
        return [type(x).__name__, x]
    raise TypeError(f"a kernel's argument of type {type(x).__name__}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
