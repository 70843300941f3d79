"""What goes by rows: layer norm without weights, the gate of the attention's result, and their gradients.

A program has some whole rows in registers: each element is read once and written once. Statistics are float32, of what
is left without the mean, so that rows far from zero lose no digits; they are calculated again rather than kept.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from gr_ops.cuda.layer.launch import launch

ELEMENTS = 2048  # of a program: a row of 512 numbers leaves four to it


@triton.jit
def _places(tokens, width, M: tl.constexpr, P: tl.constexpr):
    """Rows (64 bits: tokens times columns pass 32), columns, and which of them there are."""
    row_M = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    column_P = tl.arange(0, P)
    return row_M[:, None], column_P[None, :], (row_M < tokens)[:, None] & (column_P < width)[None, :]


@triton.jit
def _norm(x_MP, there_MP, width, eps):
    """The normed rows, 0 outside, and what they were multiplied by."""
    mean_M = tl.sum(x_MP, 1) / width
    centred_MP = tl.where(there_MP, x_MP - mean_M[:, None], 0.0)
    inverse_M = 1.0 / tl.sqrt(tl.sum(centred_MP * centred_MP, 1) / width + eps)
    return centred_MP * inverse_M[:, None], inverse_M[:, None]


@triton.jit
def _norm_gradient(of_normed_MP, normed_MP, inverse_M1, width):
    """Of the rows before the norm: without the mean, and without the part along the normed row."""
    mean_M = tl.sum(of_normed_MP, 1) / width
    along_M = tl.sum(of_normed_MP * normed_MP, 1) / width
    return (of_normed_MP - mean_M[:, None] - normed_MP * along_M[:, None]) * inverse_M1


@triton.jit
def _load(x, place_MP, there_MP):
    return tl.load(x + place_MP, mask=there_MP, other=0.0).to(tl.float32)


@triton.jit
def _gate(u, keep, u_MP, keep_MP, there_MP, scale, KEEP: tl.constexpr):
    """u * keep * scale and u; without dropout both are u."""
    gate_MP = _load(u, u_MP, there_MP)
    if KEEP:
        kept_MP = tl.load(keep + keep_MP, mask=there_MP, other=0).to(tl.float32) * scale
    else:
        kept_MP = tl.where(there_MP, 1.0, 0.0) * scale
    return gate_MP, kept_MP


@triton.jit(do_not_specialize=["tokens"])
def norm(x, out, tokens, width, x_stride, eps, M: tl.constexpr, P: tl.constexpr):
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    normed_MP, _ = _norm(_load(x, row_M1 * x_stride + column_1P, there_MP), there_MP, width, eps)
    tl.store(out + row_M1 * width + column_1P, normed_MP.to(out.dtype.element_ty), mask=there_MP)


@triton.jit(do_not_specialize=["tokens"])
def norm_backward(of_normed, x, of_x, tokens, width, x_stride, eps, M: tl.constexpr, P: tl.constexpr):
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    place_MP = row_M1 * width + column_1P
    normed_MP, inverse_M1 = _norm(_load(x, row_M1 * x_stride + column_1P, there_MP), there_MP, width, eps)
    found_MP = _norm_gradient(_load(of_normed, place_MP, there_MP), normed_MP, inverse_M1, width)
    tl.store(of_x + place_MP, found_MP.to(of_x.dtype.element_ty), mask=there_MP)


@triton.jit(do_not_specialize=["tokens"])
def gate(
    attended,
    u,
    keep,
    out,
    tokens,
    width,
    attended_stride,
    u_stride,
    keep_stride,
    scale,
    eps,
    KEEP: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    attended_MP = _load(attended, row_M1 * attended_stride + column_1P, there_MP)
    normed_MP, _ = _norm(attended_MP, there_MP, width, eps)
    u_MP, keep_MP = row_M1 * u_stride + column_1P, row_M1 * keep_stride + column_1P
    gate_MP, kept_MP = _gate(u, keep, u_MP, keep_MP, there_MP, scale, KEEP)
    found_MP = normed_MP * gate_MP * kept_MP
    tl.store(out + row_M1 * width + column_1P, found_MP.to(out.dtype.element_ty), mask=there_MP)


@triton.jit(do_not_specialize=["tokens"])
def gate_backward(
    of_gated,
    attended,
    u,
    keep,
    of_attended,
    of_u,
    gated,
    tokens,
    width,
    attended_stride,
    u_stride,
    keep_stride,
    scale,
    eps,
    KEEP: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """And the gated rows once more, which the gradient of the output's weight is a product of."""
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    place_MP = row_M1 * width + column_1P
    attended_MP = _load(attended, row_M1 * attended_stride + column_1P, there_MP)
    normed_MP, inverse_M1 = _norm(attended_MP, there_MP, width, eps)
    u_MP, keep_MP = row_M1 * u_stride + column_1P, row_M1 * keep_stride + column_1P
    gate_MP, kept_MP = _gate(u, keep, u_MP, keep_MP, there_MP, scale, KEEP)
    of_kept_MP = _load(of_gated, place_MP, there_MP) * kept_MP
    found_MP = _norm_gradient(of_kept_MP * gate_MP, normed_MP, inverse_M1, width)
    tl.store(of_attended + place_MP, found_MP.to(of_attended.dtype.element_ty), mask=there_MP)
    tl.store(of_u + place_MP, (of_kept_MP * normed_MP).to(of_u.dtype.element_ty), mask=there_MP)
    tl.store(gated + place_MP, (normed_MP * gate_MP * kept_MP).to(gated.dtype.element_ty), mask=there_MP)


def normed(x_LD: torch.Tensor, dtype: torch.dtype, eps: float) -> torch.Tensor:
    x_LD = with_rows(x_LD)
    out_LD = torch.empty(x_LD.shape, dtype=dtype, device=x_LD.device)
    _by_rows(norm, out_LD, (x_LD, out_LD), (x_LD.stride(0),), (eps,))
    return out_LD


def norm_gradient(of_normed_LD: torch.Tensor, x_LD: torch.Tensor, of_x_LD: torch.Tensor, eps: float) -> None:
    x_LD = with_rows(x_LD)
    _by_rows(norm_backward, of_x_LD, (of_normed_LD.contiguous(), x_LD, of_x_LD), (x_LD.stride(0),), (eps,))


def gated(
    attended_LV: torch.Tensor, u_LV: torch.Tensor, keep_LV: torch.Tensor | None, scale: float, eps: float
) -> torch.Tensor:
    """norm(attended) * u * keep * scale"""
    read, strides = _gate_inputs(attended_LV, u_LV, keep_LV)
    out_LV = torch.empty(attended_LV.shape, dtype=attended_LV.dtype, device=attended_LV.device)
    _by_rows(gate, out_LV, (*read, out_LV), strides, (scale, eps, keep_LV is not None))
    return out_LV


def gate_gradients(
    of_gated_LV: torch.Tensor,
    attended_LV: torch.Tensor,
    u_LV: torch.Tensor,
    keep_LV: torch.Tensor | None,
    scale: float,
    eps: float,
    results: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """`results`: of attended and of u, both contiguous. Returns the gated rows."""
    read, strides = _gate_inputs(attended_LV, u_LV, keep_LV)
    gated_LV = torch.empty_like(results[0])
    tensors = (of_gated_LV.contiguous(), *read, *results, gated_LV)
    _by_rows(gate_backward, gated_LV, tensors, strides, (scale, eps, keep_LV is not None))
    return gated_LV


def with_rows(x: torch.Tensor) -> torch.Tensor:
    """One whose rows are contiguous."""
    return x if x.stride(1) == 1 else x.contiguous()


def _gate_inputs(
    attended_LV: torch.Tensor, u_LV: torch.Tensor, keep_LV: torch.Tensor | None
) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
    """And the strides of their rows. Without dropout u stands for keep and is not read as such."""
    given = [with_rows(x) for x in (attended_LV, u_LV)]
    given.append(given[1] if keep_LV is None else with_rows(keep_LV.view(torch.uint8)))
    return tuple(given), tuple(x.stride(0) for x in given)


def _by_rows(
    kernel: Any,
    like: torch.Tensor,
    tensors: tuple[torch.Tensor, ...],
    strides: tuple[int, ...],
    numbers: tuple[float | bool, ...],
) -> None:
    tokens, width = like.shape
    padded = triton.next_power_of_2(width)
    rows = max(1, ELEMENTS // padded)
    warps = min(max(4, rows * padded // 512), 16)
    values = (*tensors, tokens, width, *strides, *numbers, rows, padded)
    launch(kernel, triton.cdiv(tokens, rows), values, num_warps=warps)
