"""Tiles of tensors in memory, as arguments of kernels that move them by TMA."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch

from gr_ops.cuda import cubins


class Tile(NamedTuple):
    """What TMA moves at once of a tensor, whose last dimension is contiguous: a block of `block` numbers."""

    base: torch.Tensor
    block: tuple[int, ...]


def describe(x: torch.Tensor, block: tuple[int, ...]) -> Any:
    """For a launch. Address and strides are multiples of 16 bytes, as the callers have seen to."""
    return Tile(x, block) if cubins.version() else _in_gluon(x, block)


def _in_gluon(x: torch.Tensor, block: tuple[int, ...]) -> Any:
    """Without the checks of its class, which take the host longer than all the rest."""
    descriptor, _ = _gluon()
    made = object.__new__(descriptor)
    made.base, made.shape, made.strides = x, list(x.shape), list(x.stride())
    made.block_shape, made.layout, made.padding = list(block), _layout(block, x.dtype), "zero"
    return made


@cache
def _gluon() -> tuple[Any, Any]:
    from triton.experimental.gluon import language
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    return TensorDescriptor, language


@cache
def _layout(block: tuple[int, ...], dtype: torch.dtype) -> Any:
    _, gl = _gluon()
    return gl.NVMMASharedLayout.get_default_for(list(block), getattr(gl, str(dtype).removeprefix("torch.")))
