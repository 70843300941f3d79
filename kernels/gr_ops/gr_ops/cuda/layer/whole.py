"""A whole HSTU layer of a training step on Hopper GPUs, as one function of torch.autograd.

    u, v, q, k = SiLU(norm(x) W1),  out = x + dropout(norm(attention(q, k, v)) * u) W2^T + b

The functions of training.py make the product before SiLU again in their backward pass, to multiply its gradients by
SiLU's slope. Here the slopes are kept, 8 bits each (slope_codes.py), and what makes a gradient of u, v, q or k
multiplies by them where it writes: into the columns of one matrix, which the gradients of x and W1 are products of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gr_ops.cuda import paths
from gr_ops.cuda.hopper import launch
from gr_ops.cuda.layer import hopper_products, products, rows
from gr_ops.cuda.mask import LOWER
from gr_ops.cuda.problem import Problem, Relative


@dataclass(frozen=True)
class Attention:
    """The attention of a batch beside q, k and v: what hstu_jagged is given, or with `times_L` hstu_relative."""

    heads: int
    offsets: torch.Tensor
    contexts: torch.Tensor | None
    targets: torch.Tensor | None
    longest: int
    scale: float
    times_L: torch.Tensor | None = None
    cells: torch.Tensor | None = None

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        """By the operators, which check what they are given; [L, N, V]."""
        masks = (self.offsets, self.contexts, self.targets, 1)
        if not tables:
            common = (None, None, LOWER, self.longest, self.scale)
            out: torch.Tensor = torch.ops.mxrec.hstu_jagged(q, k, v, *common, *masks)
        else:
            bias = (*tables, self.times_L, self.cells)
            out = torch.ops.mxrec.hstu_relative(q, k, v, *bias, *masks, self.longest, self.scale)
        return out

    def problem(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, tables: Sequence[torch.Tensor]) -> Problem:
        relative = None
        if tables:
            assert self.times_L is not None and self.cells is not None
            position, time = tables
            relative = Relative(position, time, self.times_L, self.cells)
        return Problem(
            q,
            k,
            v,
            self.offsets,
            self.longest,
            self.scale,
            contexts=self.contexts,
            targets=self.targets,
            relative=relative,
        )

    def by_heads(self, x_L: torch.Tensor) -> torch.Tensor:
        return x_L.unflatten(1, (self.heads, -1))


@dataclass(frozen=True)
class Numbers:
    """What a layer is besides its tensors."""

    split: tuple[int, int, int, int]  # columns of u, v, q and k
    norm_eps: float
    gate_eps: float
    dtype: torch.dtype  # of all between x and the output
    scale: float  # of what dropout keeps


def takes(
    x_LD: torch.Tensor, weight_DE: torch.Tensor, numbers: Numbers, attention: Attention, tables: Sequence[torch.Tensor]
) -> bool:
    """Whether all of it has kernels for Hopper that were tested, by shapes and types alone."""
    if not x_LD.is_cuda or not len(x_LD) or not attention.longest:
        return False

    def like(rows: int, columns: int) -> torch.Tensor:
        """Of this shape, with the memory of one row."""
        return x_LD.new_empty(1, columns, dtype=numbers.dtype).expand(rows, columns)

    tokens = len(x_LD)
    parts = [like(tokens, width) for width in numbers.split]
    if not hopper_products.take(like(tokens, x_LD.shape[1]), like(*weight_DE.shape), parts):
        return False
    _, v, q, k = (attention.by_heads(part) for part in parts)
    return paths.hopper(attention.problem(q, k, v, tables)) is not None


def layer(
    x_LD: torch.Tensor,
    weight_DE: torch.Tensor,
    output_DV: torch.Tensor,
    bias_D: torch.Tensor,
    keep_LV: torch.Tensor | None,
    numbers: Numbers,
    attention: Attention,
    tables: Sequence[torch.Tensor] = (),
) -> torch.Tensor:
    """[L, D], of x's type, for what `takes` says yes to. `tables`: the relative bias's position [P] and time [T], or
    none. Weights may be float32: they are rounded once, and their gradients not at all."""
    out: torch.Tensor = Layer.apply(x_LD, weight_DE, output_DV, bias_D, keep_LV, numbers, attention, *tables)
    return out


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        output: torch.Tensor,
        bias: torch.Tensor,
        keep: torch.Tensor | None,
        numbers: Numbers,
        attention: Attention,
        *tables: torch.Tensor,
    ) -> torch.Tensor:
        weights = weight.to(numbers.dtype), output.to(numbers.dtype)
        normed, inverse = rows.normed(x, numbers.dtype, numbers.norm_eps)
        u, v, q, k = parts = [normed.new_empty(len(x), width) for width in numbers.split]
        codes = torch.empty(len(x), weight.shape[1], dtype=torch.uint8, device=x.device)
        hopper_products.silu_parts(normed, weights[0], parts, codes)
        q, k, v = (attention.by_heads(part) for part in (q, k, v))
        attended = attention.attend(q, k, v, tables).flatten(1)
        gated = rows.gated(attended, u, keep, numbers.scale, numbers.gate_eps)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        products.with_residual(gated, weights[1], bias.to(numbers.dtype), x, out)
        ctx.save_for_backward(normed, inverse, codes, u, v, q, k, attended, gated, keep, *weights, *tables)
        ctx.about = numbers, attention, weight.dtype, output.dtype, bias.dtype
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        normed, inverse, codes, u, v, q, k, attended, gated, keep, weight, output, *tables = ctx.saved_tensors
        numbers, attention, weight_type, output_type, bias_type = ctx.about
        rounded, of_bias = rows.rounded_and_summed(grad, numbers.dtype)
        of_product = torch.empty(codes.shape, dtype=numbers.dtype, device=codes.device)
        of_u, *of_others = of_product.split(numbers.split, dim=1)
        u_codes, *other_codes = codes.split(numbers.split, dim=1)
        of_attended = torch.empty_like(attended)
        rows.gate_gradients(
            products.plain(rounded, output),
            attended,
            u,
            keep,
            numbers.scale,
            numbers.gate_eps,
            (of_attended, of_u),
            codes_LV=u_codes,
        )
        of_output = products.plain(rounded.t(), gated, output_type)
        of_v, of_q, of_k = (attention.by_heads(x) for x in of_others)
        v_codes, q_codes, k_codes = (attention.by_heads(x) for x in other_codes)
        problem = attention.problem(q, k, v, tables)
        of_tables = launch.gradients(
            problem, attention.by_heads(of_attended), of_q, of_k, of_v, (q_codes, k_codes, v_codes)
        )
        of_weight = products.plain(normed.t(), of_product, weight_type)
        of_x = torch.empty_like(grad, memory_format=torch.contiguous_format)
        rows.norm_gradient(products.plain(of_product, weight.t()), normed, inverse, of_x, grad)
        return of_x, of_weight, of_output, of_bias.to(bias_type), None, None, None, *(of_tables or ())
