"""The layer norm of chosen tokens, with weights: what a head reads of the last layer's result."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from gr_ops.cuda.layer.launch import launch
from gr_ops.cuda.layer.rows import SUMMED, SUMS, norm_gradient_of, normed_of, with_rows

ELEMENTS = 2048  # of a program
Gradients = tuple[torch.Tensor | None, ...]


@triton.jit(do_not_specialize=["chosen"])
def scored(x, at, weight, bias, out, normed, inverse, chosen, width, x_stride, eps, M: tl.constexpr, P: tl.constexpr):
    row_M, column_1P = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M), tl.arange(0, P)[None, :]
    there_M, wide_1P = row_M < chosen, column_1P < width
    there_MP = there_M[:, None] & wide_1P
    from_M = tl.load(at + row_M, mask=there_M, other=0).to(tl.int64)
    x_MP = tl.load(x + (from_M * x_stride)[:, None] + column_1P, mask=there_MP, other=0.0).to(tl.float32)
    normed_MP, inverse_M1 = normed_of(x_MP, there_MP, width, eps)
    place_MP = (row_M * width)[:, None] + column_1P
    weight_1P = tl.load(weight + column_1P, mask=wide_1P, other=0.0).to(tl.float32)
    bias_1P = tl.load(bias + column_1P, mask=wide_1P, other=0.0).to(tl.float32)
    tl.store(out + place_MP, (normed_MP * weight_1P + bias_1P).to(out.dtype.element_ty), mask=there_MP)
    tl.store(normed + place_MP, normed_MP.to(normed.dtype.element_ty), mask=there_MP)
    tl.store(inverse + row_M[:, None], inverse_M1, mask=there_M[:, None])


@triton.jit(do_not_specialize=["chosen", "steps"])
def scored_backward(
    grad,
    at,
    weight,
    normed,
    inverse,
    of_x,
    of_weights,
    of_biases,
    chosen,
    width,
    steps,
    M: tl.constexpr,
    P: tl.constexpr,
):
    """Of the chosen rows; and the sums for weight and bias of a program's `steps` times M rows."""
    column_P = tl.arange(0, P)
    wide_P = column_P < width
    weight_1P = tl.load(weight + column_P, mask=wide_P, other=0.0).to(tl.float32)[None, :]
    weight_sum_MP = tl.zeros([M, P], tl.float32)
    bias_sum_MP = tl.zeros([M, P], tl.float32)
    for step in range(steps):
        row_M = (tl.program_id(0).to(tl.int64) * steps + step) * M + tl.arange(0, M)
        there_M = row_M < chosen
        there_MP = there_M[:, None] & wide_P[None, :]
        place_MP = (row_M * width)[:, None] + column_P[None, :]
        grad_MP = tl.load(grad + place_MP, mask=there_MP, other=0.0).to(tl.float32)
        normed_MP = tl.load(normed + place_MP, mask=there_MP, other=0.0).to(tl.float32)
        inverse_M = tl.load(inverse + row_M, mask=there_M, other=0.0)
        weight_sum_MP += grad_MP * normed_MP
        bias_sum_MP += grad_MP
        found_MP = norm_gradient_of(grad_MP * weight_1P, normed_MP, inverse_M[:, None], width)
        to_M = tl.load(at + row_M, mask=there_M, other=0).to(tl.int64)
        tl.store(of_x + (to_M * width)[:, None] + column_P[None, :], found_MP.to(of_x.dtype.element_ty), mask=there_MP)
    place_P = tl.program_id(0) * width + column_P
    tl.store(of_weights + place_P, tl.sum(weight_sum_MP, 0), mask=wide_P)
    tl.store(of_biases + place_P, tl.sum(bias_sum_MP, 0), mask=wide_P)


def norm(
    x_LD: torch.Tensor, at_I: torch.Tensor, weight_D: torch.Tensor, bias_D: torch.Tensor, eps: float, dtype: torch.dtype
) -> torch.Tensor:
    """layer_norm(x[at]) * weight + bias, [I, D], as `dtype`. No row may be chosen twice."""
    out: torch.Tensor = Norm.apply(x_LD, at_I, weight_D, bias_D, eps, dtype)
    return out


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        at: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        eps: float,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        x, chosen, width = with_rows(x), len(at), x.shape[1]
        out, normed = (torch.empty(chosen, width, dtype=dtype, device=x.device) for _ in range(2))
        inverse = torch.empty(chosen, dtype=torch.float32, device=x.device)
        padded = triton.next_power_of_2(width)
        rows = max(1, ELEMENTS // padded)
        values = (x, at, weight, bias, out, normed, inverse, chosen, width, x.stride(0), eps, rows, padded)
        if chosen:
            launch(scored, triton.cdiv(chosen, rows), values, num_warps=4)
        ctx.save_for_backward(at, weight, normed, inverse)
        ctx.of_x = x.shape, x.dtype
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Gradients:
        at, weight, normed, inverse = ctx.saved_tensors
        (shape, dtype), (chosen, width) = ctx.of_x, normed.shape
        of_x = torch.zeros(shape, dtype=dtype, device=grad.device)
        padded = triton.next_power_of_2(width)
        rows = max(1, SUMMED // padded)
        steps = max(1, triton.cdiv(triton.cdiv(chosen, rows), SUMS))
        programs = triton.cdiv(chosen, rows * steps)
        sums = torch.empty(2, programs, width, dtype=torch.float32, device=grad.device)
        tensors = (grad.contiguous(), at, weight, normed, inverse, of_x, sums[0], sums[1])
        if chosen:
            launch(scored_backward, programs, (*tensors, chosen, width, steps, rows, padded), num_warps=8)
        of_weight, of_bias = sums.sum(1).to(weight.dtype)
        return of_x, None, of_weight, of_bias, None, None
