"""The operators around HSTU's attention as a training step wants them: torch.autograd's functions, that keep what costs
little to keep. Normed and gated rows are kept, since gradients of weights are products of them; x is not.

`project` hands x on, for the residual of `add_gated`: its gradient comes back there, and is added where that of the
norm is written. Weights may be float32: they are rounded once, and their gradients are not rounded at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gr_ops.cuda.layer import products, rows

Gradients = tuple[torch.Tensor | None, ...]


def project(
    x_LD: torch.Tensor, weight_DE: torch.Tensor, split: Sequence[int], eps: float, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """x itself, and SiLU(norm(x) weight), split along its columns, as `dtype`."""
    return Projection.apply(x_LD, weight_DE, tuple(split), eps, dtype)


def add_gated(
    x_LD: torch.Tensor,
    attended_LV: torch.Tensor,
    u_LV: torch.Tensor,
    weight_DV: torch.Tensor,
    bias_D: torch.Tensor,
    keep_LV: torch.Tensor | None,
    scale: float,
    eps: float,
) -> torch.Tensor:
    """x + (norm(attended) * u * keep * scale) weight^T + bias"""
    out: torch.Tensor = GatedOutput.apply(x_LD, attended_LV, u_LV, weight_DV, bias_D, keep_LV, scale, eps)
    return out


class Projection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, split: tuple[int, ...], eps: float, dtype: torch.dtype
    ) -> tuple[torch.Tensor, ...]:
        rounded = weight.to(dtype)
        normed, inverse = rows.normed(x, dtype, eps)
        parts = [torch.empty(len(x), width, dtype=dtype, device=x.device) for width in split]
        if len(x):
            products.silu_parts(normed, rounded, parts)
        ctx.save_for_backward(normed, inverse, rounded)
        ctx.types = x.dtype, weight.dtype
        ctx.set_materialize_grads(False)
        ctx.split = split
        return x, *parts

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, more: torch.Tensor | None, *grads: torch.Tensor | None) -> Gradients:
        normed, inverse, weight = ctx.saved_tensors
        x_type, weight_type = ctx.types
        of_x = torch.empty(normed.shape, dtype=x_type, device=normed.device)
        if not len(normed):
            return of_x, torch.zeros_like(weight, dtype=weight_type), None, None, None
        given = [
            normed.new_zeros(1, 1).expand(len(normed), width) if grad is None else grad
            for grad, width in zip(grads, ctx.split, strict=True)
        ]
        of_product = products.slope_parts(normed, weight, given)
        of_weight = products.plain(normed.t(), of_product, weight_type)
        rows.norm_gradient(products.plain(of_product, weight.t()), normed, inverse, of_x, more)
        return of_x, of_weight, None, None, None


class GatedOutput(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        attended: torch.Tensor,
        u: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        keep: torch.Tensor | None,
        scale: float,
        eps: float,
    ) -> torch.Tensor:
        rounded = weight.to(attended.dtype)
        gated = rows.gated(attended, u, keep, scale, eps)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if len(x):
            products.with_residual(gated, rounded, bias.to(attended.dtype), x, out)
        ctx.save_for_backward(attended, u, rounded, keep, gated)
        ctx.types = weight.dtype, bias.dtype
        ctx.numbers = scale, eps
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Gradients:
        attended, u, weight, keep, gated = ctx.saved_tensors
        weight_type, bias_type = ctx.types
        of_attended, of_u = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (attended, u))
        if not len(grad):
            of_weight = torch.zeros_like(weight, dtype=weight_type)
            return grad, of_attended, of_u, of_weight, weight.new_zeros(len(weight), dtype=bias_type), None, None, None
        rounded, of_bias = rows.rounded_and_summed(grad, weight.dtype)
        of_gated, (scale, eps) = products.plain(rounded, weight), ctx.numbers
        rows.gate_gradients(of_gated, attended, u, keep, scale, eps, (of_attended, of_u))
        of_weight = products.plain(rounded.t(), gated, weight_type)
        return grad, of_attended, of_u, of_weight, of_bias.to(bias_type), None, None, None
