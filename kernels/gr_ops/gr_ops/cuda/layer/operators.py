"""hstu_projection, hstu_gated_output, their gradients and hstu_keep on CUDA tensors: float32, float16 and bfloat16.

As under autocast, x may be float32 beside a weight of 16 bits: the norm is of float32 then, and the residual stays it.
"""

from __future__ import annotations

from typing import Any

import torch

from gr_ops.cuda.arguments import META
from gr_ops.cuda.layer import dropout, products, rows

Tensors = tuple[torch.Tensor, ...]


def projection(op: Any, x: torch.Tensor, weight: torch.Tensor, split: list[int], eps: float) -> list[torch.Tensor]:
    parts: list[torch.Tensor] = op.redispatch(META, _typed(op, x, weight), weight, split, eps)
    if len(x):
        products.silu_parts(rows.normed(x, weight.dtype, eps)[0], weight, parts)
    return parts


def projection_backward(
    op: Any, grads: list[torch.Tensor], x: torch.Tensor, weight: torch.Tensor, split: list[int], eps: float
) -> Tensors:
    of_x, of_weight = op.redispatch(META, grads, _typed(op, x, weight), weight, split, eps)
    of_x = _of_type(of_x, x.dtype)
    if not len(x):
        return of_x, of_weight.zero_()
    normed, inverse = rows.normed(x, weight.dtype, eps)
    of_product = products.slope_parts(normed, weight, grads)
    rows.norm_gradient(products.plain(of_product, weight.t()), normed, inverse, of_x)
    return of_x, of_weight.copy_(products.plain(normed.t(), of_product))


def gated_output(
    op: Any,
    attended: torch.Tensor,
    u: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    keep: torch.Tensor | None,
    scale: float,
    eps: float,
) -> torch.Tensor:
    out: torch.Tensor = op.redispatch(META, attended, u, _typed(op, x, weight), weight, bias, keep, scale, eps)
    out = _of_type(out, x.dtype)
    if len(x):
        products.with_residual(rows.gated(attended, u, keep, scale, eps), weight, bias, x, out)
    return out


def gated_output_backward(
    op: Any,
    grad: torch.Tensor,
    attended: torch.Tensor,
    u: torch.Tensor,
    weight: torch.Tensor,
    keep: torch.Tensor | None,
    scale: float,
    eps: float,
) -> Tensors:
    given = _typed(op, grad, weight)
    of_attended, of_u, of_weight, of_bias = op.redispatch(META, given, attended, u, weight, keep, scale, eps)
    if not len(grad):
        return of_attended, of_u, of_weight.zero_(), of_bias.zero_()
    rounded, sums = rows.rounded_and_summed(grad, weight.dtype)
    gated = torch.empty_like(of_attended)
    rows.gate_gradients(products.plain(rounded, weight), attended, u, keep, scale, eps, (of_attended, of_u), gated)
    return of_attended, of_u, of_weight.copy_(products.plain(rounded.t(), gated)), of_bias.copy_(sums)


def keep(op: Any, like: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    out: torch.Tensor = op.redispatch(META, like, p, seed)
    if out.numel():
        dropout.kept(out, p, seed)
    return out


def _typed(op: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x for the checks: float32 beside 16 bits stands there as one of the weight's type."""
    if torch.float64 in (x.dtype, weight.dtype):
        raise RuntimeError(
            f"{op._schema.name.partition('::')[2]}: float64 is not supported on CUDA; expected float32, float16 or "
            "bfloat16"
        )
    if x.dtype == torch.float32 and weight.dtype in (torch.float16, torch.bfloat16):
        return x.new_empty(1, dtype=weight.dtype).expand(x.shape)
    return x


def _of_type(empty: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return empty if empty.dtype == dtype else torch.empty_like(empty, dtype=dtype)
