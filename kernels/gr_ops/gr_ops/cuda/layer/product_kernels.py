"""The kernels of products.py: a product of matrices, and a function of it before it is written.

Parts of the columns are tensors of their own, four to a launch; no tile has columns of two.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
