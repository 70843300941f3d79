"""Products whose results are wanted through a function, which is applied while they are in registers.

SiLU of the projection, split into u, v, q and k as it is written; the gradient before SiLU, of products that are made
again, which costs less than to keep them; the output with its bias and the residual. A program makes one tile, and two
programs fit a multiprocessor of a Hopper GPU: one multiplies while the other one writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

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


# Shared memory: 3 x 32 KiB each, two programs of it on a Hopper GPU, one on Ampere's and Ada's small ones (99 KiB).
TILES = {2: Tile(128, 128, 64, 4, 3), 4: Tile(64, 64, 32, 4, 3)}  # by bytes of an element
# Three products in TF32 for one in float32, as in attention; other types ignore it.
PRECISION = "tf32x3"


@triton.jit
def _product(
    a,
    b,
    row_M,
    column_N,
    there_N,
    tokens,
    inner,
    a_stride,
    b_inner_stride,
    b_column_stride,
    FULL: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """[M, N] float32 of rows of a [tokens, inner] and columns of b [inner, columns]. FULL: no step and no tile of
    columns is cut. Rows behind the last are the last one: whoever writes leaves them out."""
    inner_K = tl.arange(0, K)
    a_MK = a + tl.minimum(row_M, tokens - 1)[:, None] * a_stride + inner_K[None, :]
    b_KN = b + (inner_K[:, None] * b_inner_stride + column_N[None, :] * b_column_stride)
    sum_MN = tl.zeros([M, N], tl.float32)
    for first in range(0, inner, K):
        if FULL:
            one_MK = tl.load(a_MK)
            one_KN = tl.load(b_KN)
        else:
            there_K = first + inner_K < inner
            one_MK = tl.load(a_MK, mask=there_K[None, :], other=0.0)
            one_KN = tl.load(b_KN, mask=there_K[:, None] & there_N[None, :], other=0.0)
        sum_MN = tl.dot(one_MK, one_KN, sum_MN, input_precision=PRECISION)
        a_MK += K
        b_KN += K * b_inner_stride
    return sum_MN


@triton.jit
def _place(tiles, M: tl.constexpr):
    """The rows of a program and its tile of columns: programs beside each other share rows, which the cache has."""
    row_M = (tl.program_id(0) // tiles).to(tl.int64) * M + tl.arange(0, M)
    return row_M, tl.program_id(0) % tiles


@triton.jit
def _chosen(tile, end_0, end_1, end_2, of_0, of_1, of_2, of_3):
    """What belongs to the part that a tile is in; `end_n`: the first tile behind part n."""
    return tl.where(tile < end_0, of_0, tl.where(tile < end_1, of_1, tl.where(tile < end_2, of_2, of_3)))


@triton.jit
def _columns(tile, width_0, width_1, width_2, width_3, N: tl.constexpr):
    """Parts stand beside each other, and no tile has columns of two. The first tiles behind the parts; of the tile's
    part the first column and the width; the tile's columns, counted from there."""
    end_0 = tl.cdiv(width_0, N)
    end_1 = end_0 + tl.cdiv(width_1, N)
    end_2 = end_1 + tl.cdiv(width_2, N)
    begin_2 = width_0 + width_1
    begin = _chosen(tile, end_0, end_1, end_2, 0, width_0, begin_2, begin_2 + width_2)
    width = _chosen(tile, end_0, end_1, end_2, width_0, width_1, width_2, width_3)
    first = (tile - _chosen(tile, end_0, end_1, end_2, 0, end_0, end_1, end_2)) * N
    return end_0, end_1, end_2, begin, width, first + tl.arange(0, N)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["tokens"])
def silu(
    a,
    b,
    part_0,
    part_1,
    part_2,
    part_3,
    tokens,
    inner,
    tiles,
    a_stride,
    b_inner_stride,
    b_column_stride,
    width_0,
    width_1,
    width_2,
    width_3,
    FULL: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """parts = SiLU(a b), each [tokens, width]"""
    row_M, tile = _place(tiles, M)
    end_0, end_1, end_2, begin, width, column_N = _columns(tile, width_0, width_1, width_2, width_3, N)
    part = _chosen(tile, end_0, end_1, end_2, part_0, part_1, part_2, part_3)
    there_N = column_N < width
    x_MN = _product(
        a,
        b + begin.to(tl.int64) * b_column_stride,
        row_M,
        column_N,
        there_N,
        tokens,
        inner,
        a_stride,
        b_inner_stride,
        b_column_stride,
        FULL,
        M,
        N,
        K,
        PRECISION,
    )
    there_MN = (row_M < tokens)[:, None] & there_N[None, :]
    found_MN = (x_MN * _sigmoid(x_MN)).to(part.dtype.element_ty)
    tl.store(part + (row_M[:, None] * width + column_N[None, :]), found_MN, mask=there_MN)


@triton.jit(do_not_specialize=["tokens"])
def silu_slope(
    a,
    b,
    grad_0,
    grad_1,
    grad_2,
    grad_3,
    out,
    tokens,
    inner,
    tiles,
    a_stride,
    b_inner_stride,
    b_column_stride,
    width_0,
    width_1,
    width_2,
    width_3,
    stride_0,
    stride_1,
    stride_2,
    stride_3,
    out_stride,
    FULL: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """out [tokens, all widths] = gradients of the parts * SiLU'(a b)"""
    row_M, tile = _place(tiles, M)
    end_0, end_1, end_2, begin, width, column_N = _columns(tile, width_0, width_1, width_2, width_3, N)
    grad = _chosen(tile, end_0, end_1, end_2, grad_0, grad_1, grad_2, grad_3)
    stride = _chosen(tile, end_0, end_1, end_2, stride_0, stride_1, stride_2, stride_3)
    there_N = column_N < width
    x_MN = _product(
        a,
        b + begin.to(tl.int64) * b_column_stride,
        row_M,
        column_N,
        there_N,
        tokens,
        inner,
        a_stride,
        b_inner_stride,
        b_column_stride,
        FULL,
        M,
        N,
        K,
        PRECISION,
    )
    there_MN = (row_M < tokens)[:, None] & there_N[None, :]
    grad_MN = tl.load(grad + (row_M[:, None] * stride + column_N[None, :]), mask=there_MN, other=0.0).to(tl.float32)
    s_MN = _sigmoid(x_MN)
    found_MN = (grad_MN * (s_MN * (1.0 + x_MN * (1.0 - s_MN)))).to(out.dtype.element_ty)
    tl.store(out + (row_M[:, None] * out_stride + (begin + column_N)[None, :]), found_MN, mask=there_MN)


@triton.jit(do_not_specialize=["tokens"])
def residual(
    a,
    b,
    bias,
    x,
    out,
    tokens,
    inner,
    tiles,
    a_stride,
    b_inner_stride,
    b_column_stride,
    x_stride,
    width,
    FULL: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """out [tokens, width] = x + a b + bias"""
    row_M, tile = _place(tiles, M)
    column_N = tile * N + tl.arange(0, N)
    there_N = column_N < width
    product_MN = _product(
        a,
        b,
        row_M,
        column_N,
        there_N,
        tokens,
        inner,
        a_stride,
        b_inner_stride,
        b_column_stride,
        FULL,
        M,
        N,
        K,
        PRECISION,
    )
    there_MN = (row_M < tokens)[:, None] & there_N[None, :]
    x_MN = tl.load(x + (row_M[:, None] * x_stride + column_N[None, :]), mask=there_MN, other=0.0).to(tl.float32)
    bias_N = tl.load(bias + column_N, mask=there_N, other=0.0).to(tl.float32)
    found_MN = x_MN + (product_MN + bias_N[None, :])
    tl.store(out + (row_M[:, None] * width + column_N[None, :]), found_MN.to(out.dtype.element_ty), mask=there_MN)


def silu_parts(a_LD: torch.Tensor, b_DE: torch.Tensor, parts: Sequence[torch.Tensor]) -> None:
    """parts = SiLU(a b), split along its columns; `a_LD` and the parts are contiguous."""
    for four in _by_fours(parts, b_DE):
        _launch(silu, a_LD, four.b_DN, four.parts, four.widths, four.widths)


def slope_parts(a_LD: torch.Tensor, b_DE: torch.Tensor, grads: Sequence[torch.Tensor]) -> torch.Tensor:
    """[L, E]: the gradients of the parts * SiLU'(a b); `a_LD` is contiguous."""
    out_LE = torch.empty(len(a_LD), b_DE.shape[1], dtype=a_LD.dtype, device=a_LD.device)
    for four in _by_fours([with_rows(x) for x in grads], b_DE):
        tensors = (*four.parts, out_LE[:, four.begin :])
        strides = tuple(x.stride(0) for x in tensors)
        _launch(silu_slope, a_LD, four.b_DN, tensors, four.widths, (*four.widths, *strides))
    return out_LE


def with_residual(
    a_LV: torch.Tensor, weight_DV: torch.Tensor, bias_D: torch.Tensor, x_LD: torch.Tensor, out_LD: torch.Tensor
) -> None:
    """out = x + a weight^T + bias; `a_LV` and `out_LD` are contiguous."""
    x_LD, width = with_rows(x_LD), len(weight_DV)
    tensors = (bias_D.contiguous(), x_LD, out_LD)
    _launch(residual, a_LV, weight_DV.t(), tensors, (width,), (x_LD.stride(0), width))


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
    constants = (full, tile.tokens, tile.columns, tile.inner, PRECISION)
    values = (a_LD, b_DN, *tensors, *sizes, *constants)
    programs = triton.cdiv(tokens, tile.tokens) * tiles
    launch(kernel, programs, values, num_warps=tile.warps, num_stages=tile.stages)
