"""What goes by rows: layer norm without weights, the gate of the attention's result, and their gradients.

A program has some whole rows in registers: each element is read once and written once. Statistics are float32, of what
is left without the mean, so that rows far from zero lose no digits. The gradient of a norm reads its result, which the
product behind it keeps anyway.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from gr_ops.cuda.layer.launch import launch
from gr_ops.cuda.slope_codes import slopes_of

ELEMENTS = 2048  # of a program: a row of 512 numbers leaves four to it
SUMMED, SUMS = 4096, 1056  # elements at a time of a program that sums rows; programs: eight for each multiprocessor


@triton.jit
def _places(tokens, width, M: tl.constexpr, P: tl.constexpr):
    """Rows (64 bits: tokens times columns pass 32), columns, and which of them there are."""
    row_M = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    column_P = tl.arange(0, P)
    return row_M[:, None], column_P[None, :], (row_M < tokens)[:, None] & (column_P < width)[None, :]


@triton.jit
def normed_of(x_MP, there_MP, width, eps):
    """The normed rows, 0 outside, and what they were multiplied by."""
    mean_M = tl.sum(x_MP, 1) / width
    centred_MP = tl.where(there_MP, x_MP - mean_M[:, None], 0.0)
    inverse_M = 1.0 / tl.sqrt(tl.sum(centred_MP * centred_MP, 1) / width + eps)
    return centred_MP * inverse_M[:, None], inverse_M[:, None]


@triton.jit
def norm_gradient_of(of_normed_MP, normed_MP, inverse_M1, width):
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
def norm(x, out, inverse, tokens, width, x_stride, eps, M: tl.constexpr, P: tl.constexpr):
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    normed_MP, inverse_M1 = normed_of(_load(x, row_M1 * x_stride + column_1P, there_MP), there_MP, width, eps)
    tl.store(out + row_M1 * width + column_1P, normed_MP.to(out.dtype.element_ty), mask=there_MP)
    tl.store(inverse + row_M1, inverse_M1, mask=row_M1 < tokens)


@triton.jit(do_not_specialize=["tokens"])
def norm_backward(
    of_normed,
    normed,
    inverse,
    more,
    of_x,
    tokens,
    width,
    more_stride,
    MORE: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """MORE: and what x gets from elsewhere."""
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    place_MP = row_M1 * width + column_1P
    inverse_M1 = tl.load(inverse + row_M1, mask=row_M1 < tokens, other=0.0)
    of_normed_MP = _load(of_normed, place_MP, there_MP)
    found_MP = norm_gradient_of(of_normed_MP, _load(normed, place_MP, there_MP), inverse_M1, width)
    if MORE:
        found_MP += _load(more, row_M1 * more_stride + column_1P, there_MP)
    tl.store(of_x + place_MP, found_MP.to(of_x.dtype.element_ty), mask=there_MP)


@triton.jit(do_not_specialize=["tokens", "steps"])
def round_and_sum(
    x, rounded, sums, tokens, width, x_stride, steps, ROUND: tl.constexpr, M: tl.constexpr, P: tl.constexpr
):
    """The rows in another type, and the sum of a program's `steps` times M rows in float32."""
    column_1P = tl.arange(0, P)[None, :]
    sum_MP = tl.zeros([M, P], tl.float32)
    for step in range(steps):
        first = (tl.program_id(0).to(tl.int64) * steps + step) * M
        row_M1 = (first + tl.arange(0, M))[:, None]
        there_MP = (row_M1 < tokens) & (column_1P < width)
        x_MP = _load(x, row_M1 * x_stride + column_1P, there_MP)
        sum_MP += x_MP
        if ROUND:
            tl.store(rounded + row_M1 * width + column_1P, x_MP.to(rounded.dtype.element_ty), mask=there_MP)
    column_P = tl.arange(0, P)
    tl.store(sums + tl.program_id(0) * width + column_P, tl.sum(sum_MP, 0), mask=column_P < width)


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
    normed_MP, _ = normed_of(attended_MP, there_MP, width, eps)
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
    codes,
    tokens,
    width,
    attended_stride,
    u_stride,
    keep_stride,
    of_u_stride,
    codes_stride,
    scale,
    eps,
    KEEP: tl.constexpr,
    AGAIN: tl.constexpr,
    CODED: tl.constexpr,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """AGAIN: and the gated rows once more, which the gradient of the output's weight is a product of. CODED: the
    gradient of u times the slopes of the SiLU before it."""
    row_M1, column_1P, there_MP = _places(tokens, width, M, P)
    place_MP = row_M1 * width + column_1P
    attended_MP = _load(attended, row_M1 * attended_stride + column_1P, there_MP)
    normed_MP, inverse_M1 = normed_of(attended_MP, there_MP, width, eps)
    u_MP, keep_MP = row_M1 * u_stride + column_1P, row_M1 * keep_stride + column_1P
    gate_MP, kept_MP = _gate(u, keep, u_MP, keep_MP, there_MP, scale, KEEP)
    of_kept_MP = _load(of_gated, place_MP, there_MP) * kept_MP
    found_MP = norm_gradient_of(of_kept_MP * gate_MP, normed_MP, inverse_M1, width)
    tl.store(of_attended + place_MP, found_MP.to(of_attended.dtype.element_ty), mask=there_MP)
    of_u_MP = of_kept_MP * normed_MP
    if CODED:
        of_u_MP *= slopes_of(tl.load(codes + row_M1 * codes_stride + column_1P, mask=there_MP, other=0))
    tl.store(of_u + row_M1 * of_u_stride + column_1P, of_u_MP.to(of_u.dtype.element_ty), mask=there_MP)
    if AGAIN:
        tl.store(gated + place_MP, (normed_MP * gate_MP * kept_MP).to(gated.dtype.element_ty), mask=there_MP)


def normed(x_LD: torch.Tensor, dtype: torch.dtype, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The normed rows, and what each was multiplied by [L], float32."""
    x_LD = with_rows(x_LD)
    out_LD = torch.empty(x_LD.shape, dtype=dtype, device=x_LD.device)
    inverse_L = torch.empty(len(x_LD), dtype=torch.float32, device=x_LD.device)
    _by_rows(norm, out_LD, (x_LD, out_LD, inverse_L), (x_LD.stride(0),), (eps,))
    return out_LD, inverse_L


def norm_gradient(
    of_normed_LD: torch.Tensor,
    normed_LD: torch.Tensor,
    inverse_L: torch.Tensor,
    of_x_LD: torch.Tensor,
    more_LD: torch.Tensor | None = None,
) -> None:
    """Writes `of_x_LD`, contiguous: the gradient of the rows that were normed, and `more_LD`, theirs from elsewhere."""
    more = of_normed_LD if more_LD is None else with_rows(more_LD)
    tensors = (of_normed_LD.contiguous(), normed_LD, inverse_L, more, of_x_LD)
    _by_rows(norm_backward, of_x_LD, tensors, (more.stride(0),), (more_LD is not None,))


def rounded_and_summed(x_LD: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows as `dtype`, and the sum of all of them [D], float32."""
    x_LD = with_rows(x_LD)
    (tokens, width), device = x_LD.shape, x_LD.device
    padded = triton.next_power_of_2(width)
    rows = max(1, SUMMED // padded)
    steps = max(1, triton.cdiv(triton.cdiv(tokens, rows), SUMS))
    sums = torch.empty(triton.cdiv(tokens, rows * steps), width, dtype=torch.float32, device=device)
    same = x_LD.dtype == dtype
    rounded = x_LD if same else torch.empty(x_LD.shape, dtype=dtype, device=device)
    values = (x_LD, rounded, sums, tokens, width, x_LD.stride(0), steps, not same, rows, padded)
    launch(round_and_sum, len(sums), values, num_warps=8)
    return rounded, sums.sum(0)


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
    gated_LV: torch.Tensor | None = None,
    codes_LV: torch.Tensor | None = None,
) -> None:
    """`results`: of attended, contiguous, and of u, times the slopes of `codes_LV` (slope_codes.py); and the gated
    rows, where there is a place for them."""
    read, strides = _gate_inputs(attended_LV, u_LV, keep_LV)
    codes = read[1] if codes_LV is None else codes_LV
    tensors = (of_gated_LV.contiguous(), *read, *results, results[0] if gated_LV is None else gated_LV, codes)
    strides = (*strides, results[1].stride(0), codes.stride(0))
    wanted = (keep_LV is not None, gated_LV is not None, codes_LV is not None)
    _by_rows(gate_backward, results[0], tensors, strides, (scale, eps, *wanted))


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
