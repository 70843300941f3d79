"""Products whose results are wanted through a function, which is applied while they are in registers.

SiLU of the projection, split into u, v, q and k as it is written; the gradient before SiLU, of products that are made
again, which costs less than to keep them; the output with its bias and the residual. A program makes one tile, and two
programs fit a multiprocessor of a Hopper GPU: one multiplies while the other one writes. On Hopper GPUs products of 16
bits whose sizes fit have kernels of their own (hopper_products.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton

from gr_ops.cuda import precision
from gr_ops.cuda.layer import hopper_products
from gr_ops.cuda.layer import product_kernels as kernels
from gr_ops.cuda.layer.launch import launch
from gr_ops.cuda.layer.rows import with_rows

PARTS = 4  # of one launch: tensors stand among a kernel's arguments one by one


@dataclass(frozen=True)
class Tile:
    tokens: int
    columns: int
    inner: int  # of one step
    warps: int
    stages: int
    registers: int  # of a thread, at most


# By bytes of an element. Two programs fit a multiprocessor of Hopper: 96 KiB of shared memory each, which Ampere and
# Ada have too, and half of its registers (without a limit the compiler takes 139 to 176).
TILES = {2: Tile(128, 128, 64, 8, 3, 128), 4: Tile(128, 64, 32, 4, 3, 255)}
WIDE_RESULTS = hasattr(torch.ops.aten.mm, "dtype")  # of 16-bit factors; PyTorch 2.8 and later


def silu_parts(a_LD: torch.Tensor, b_DE: torch.Tensor, parts: Sequence[torch.Tensor]) -> None:
    """parts = SiLU(a b), split along its columns; `a_LD` and the parts are contiguous."""
    if hopper_products.take(a_LD, b_DE, parts):
        hopper_products.silu_parts(a_LD, b_DE, parts)
        return
    for four in _by_fours(parts, b_DE):
        _launch(kernels.silu, a_LD, four.b_DN, four.parts, four.widths, four.widths)


def slope_parts(a_LD: torch.Tensor, b_DE: torch.Tensor, grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """[L, E]: the gradients of the parts * SiLU'(a b); `a_LD` is contiguous."""
    if hopper_products.take(a_LD, b_DE, grads):
        return hopper_products.slope_parts(a_LD, b_DE, grads)
    out_LE = torch.empty(len(a_LD), b_DE.shape[1], dtype=a_LD.dtype, device=a_LD.device)
    for four in _by_fours([with_rows(x) for x in grads], b_DE):
        tensors = (*four.parts, out_LE[:, four.begin :])
        strides = tuple(x.stride(0) for x in tensors)
        _launch(kernels.silu_slope, a_LD, four.b_DN, tensors, four.widths, (*four.widths, *strides))
    return out_LE


def with_residual(
    a_LV: torch.Tensor, weight_DV: torch.Tensor, bias_D: torch.Tensor, x_LD: torch.Tensor, out_LD: torch.Tensor
) -> None:
    """out = x + a weight^T + bias; `a_LV` and `out_LD` are contiguous."""
    if hopper_products.take(a_LV, weight_DV.t(), [out_LD]):
        hopper_products.with_residual(a_LV, weight_DV, bias_D, x_LD, out_LD)
        return
    x_LD, width = with_rows(x_LD), len(weight_DV)
    tensors = (bias_D.contiguous(), x_LD, out_LD)
    _launch(kernels.residual, a_LV, weight_DV.t(), tensors, (width,), (x_LD.stride(0), width))


def plain(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """a b by PyTorch, as `dtype`: where it is float32 nothing is rounded between. Autocast, of a backward pass inside
    of its block, would round what is float32."""
    with torch.autocast(a.device.type, enabled=False):
        if dtype is None or dtype == a.dtype:
            return torch.mm(a, b)
        if dtype == torch.float32 and a.is_cuda and WIDE_RESULTS:
            return torch.mm(a, b, out_dtype=dtype)
        return torch.mm(a, b).to(dtype)


@dataclass(frozen=True)
class Four:
    """Up to four parts beside each other. The last one stands for those that are not there, whose width is 0."""

    begin: int  # the first column
    parts: tuple[torch.Tensor, ...]
    widths: tuple[int, ...]
    b_DN: torch.Tensor


def _by_fours(parts: Sequence[torch.Tensor], b_DE: torch.Tensor) -> Iterator[Four]:
    begin = 0
    for first in range(0, len(parts), PARTS):
        some = parts[first : first + PARTS]
        absent = PARTS - len(some)
        widths = [x.shape[1] for x in some]
        end = begin + sum(widths)
        yield Four(begin, (*some, *(some[-1],) * absent), (*widths, *(0,) * absent), b_DE[:, begin:end])
        begin = end


def _launch(
    kernel: Any,
    a_LD: torch.Tensor,
    b_DN: torch.Tensor,
    tensors: tuple[torch.Tensor, ...],
    widths: tuple[int, ...],
    numbers: tuple[int, ...],
) -> None:
    """`widths` of the parts that tiles must not cross; `numbers` stand behind the strides of a and b."""
    tile, (tokens, inner) = TILES[a_LD.element_size()], a_LD.shape
    tiles = sum(triton.cdiv(width, tile.columns) for width in widths)
    full = inner % tile.inner == 0 and all(width % tile.columns == 0 for width in widths)
    sizes = (tokens, inner, tiles, a_LD.stride(0), *b_DN.stride(), *numbers)
    constants = (full, tile.tokens, tile.columns, tile.inner, precision.of_float32())
    values = (a_LD, b_DN, *tensors, *sizes, *constants)
    programs = triton.cdiv(tokens, tile.tokens) * tiles
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "maxnreg": tile.registers}
    launch(kernel, programs, values, **options)
