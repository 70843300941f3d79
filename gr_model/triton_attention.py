"""Causal pointwise attention on CUDA in Triton: SiLU(q k + bias) v * scale over jagged sequences.

As in flash attention scores never leave the chip, and the backward pass calculates them again; SiLU needs no maximum
and no sum of a row, so nothing but the inputs is kept. Gradients of keys and values, of queries and of the bias are
kernels of their own (triton_kernels.py): seven products, nine with the bias, in place of five, but no atomic sums, and
the same bits every time. The bias of distance and time is calculated where it is needed (triton_bias.py).
Shape suffixes as in hstu.py; Q and K tokens of one block of queries and of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from gr_model import triton_bias
from gr_model.triton_kernels import BIAS_BLOCK, _backward_bias, _backward_keys, _backward_queries, _forward

WIDTHS = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Bias:
    """Learned numbers by distance and by time bucket; times and `triton_bias.cells_of` tell the bucket."""

    position_P: torch.Tensor
    time_T: torch.Tensor
    times_L: torch.Tensor  # int64, seconds
    cells: torch.Tensor


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor | None,
        time: torch.Tensor | None, times: torch.Tensor | None, cells: torch.Tensor | None, offsets: torch.Tensor,
        longest: int, scale: float,
    ) -> torch.Tensor:  # fmt: skip
        q, k, v = (_rows_of_heads(x) for x in (q, k, v))
        if position is None or time is None or times is None or cells is None:
            bias = [q.new_empty(1)] * 5  # never read
        else:
            bias = [position, time, *triton_bias.split_times(times), cells]
        ctx.save_for_backward(q, k, v, offsets, *bias)
        ctx.longest, ctx.scale, ctx.biased = longest, scale, position is not None
        out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
        if out.numel():
            _forward[_grid("Q", longest, q, offsets)](
                q, k, v, out, *bias, offsets, scale, q.stride(0), k.stride(0), v.stride(0), out.stride(0),
                **_shape(q, v), BIAS=ctx.biased,
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, offsets, *bias = ctx.saved_tensors
        grad = _rows_of_heads(grad)
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        strides = q.stride(0), k.stride(0), v.stride(0), grad.stride(0)
        if grad.numel():
            _backward_keys[_grid("K", ctx.longest, q, offsets)](
                q, k, v, grad, dk, dv, *bias, offsets, ctx.scale, *strides, dk.stride(0), dv.stride(0),
                **_shape(q, v), BIAS=ctx.biased,
            )  # fmt: skip
            _backward_queries[_grid("Q", ctx.longest, q, offsets)](
                q, k, v, grad, dq, *bias, offsets, ctx.scale, *strides, dq.stride(0), **_shape(q, v), BIAS=ctx.biased
            )
        dposition, dtime = _of_bias(ctx, grad) if ctx.biased else (None, None)
        return dq, dk, dv, dposition, dtime, None, None, None, None, None


def _of_bias(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q, k, v, offsets, *bias = ctx.saved_tensors
    position, time, block = bias[0], bias[1], BIAS_BLOCK
    if not grad.numel():
        return torch.zeros_like(position), torch.zeros_like(time)
    sequences, windows, buckets = len(offsets) - 1, triton.cdiv(ctx.longest, block), triton.next_power_of_2(len(time))
    of_position = torch.empty(sequences, windows, block, block, device=q.device)
    of_time = torch.empty(sequences * windows, buckets, device=q.device)
    _backward_bias[(windows, sequences)](
        q, k, v, grad, of_position, of_time, *bias, offsets, ctx.scale, q.stride(0), k.stride(0), v.stride(0),
        grad.stride(0), **_shape(q, v), T=buckets, K=block,
    )  # fmt: skip
    return triton_bias.position_gradient(of_position, len(position)), of_time.sum(0)[: len(time)]


def attend(
    q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, offsets_B1: torch.Tensor, longest: int,
    scale: float, bias: Bias | None = None,
) -> torch.Tensor:  # fmt: skip
    """[L, N, V]. A and V: powers of two from 16 on; tables of the bias: float32."""
    parts = (None, None, None, None) if bias is None else (bias.position_P, bias.time_T, bias.times_L, bias.cells)
    return _Attention.apply(q_LNA, k_LNA, v_LNV, *parts, offsets_B1, longest, scale)


def fits(q_LNA: torch.Tensor, v_LNV: torch.Tensor) -> bool:
    """bfloat16 alone: products in float32 are faster in PyTorch's library (gr_model.blocked)."""
    known = q_LNA.shape[2] in WIDTHS and v_LNV.shape[2] in WIDTHS
    return q_LNA.is_cuda and q_LNA.dtype == torch.bfloat16 and known


def _grid(block: str, longest: int, q: torch.Tensor, offsets: torch.Tensor) -> Any:
    return lambda meta: (triton.cdiv(longest, meta[block]), (len(offsets) - 1) * q.shape[1])


def _shape(q: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    return {"N": q.shape[1], "A": q.shape[2], "V": v.shape[2], "FAST": q.dtype == torch.bfloat16 and q.is_cuda}


def _rows_of_heads(x_LNA: torch.Tensor) -> torch.Tensor:
    """The heads of a token lie side by side; tokens may be further apart, as in a part of a product."""
    side_by_side = x_LNA.stride(2) == 1 and x_LNA.stride(1) == x_LNA.shape[2]
    return x_LNA if side_by_side else x_LNA.contiguous()
