"""Causal pointwise attention by blocks of queries that are calculated again in the backward pass.

For devices without the fused operator: the products are PyTorch's, what stands between them is one
compiled kernel on CUDA, and memory grows with the tokens and one block, not with the square of the length.
Shape suffixes as in plain.py; R sequences that reach into the block, E cells of one block's scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from gr_model.config import ModelConfig
from gr_model.model import jagged
from gr_model.model.attention.base import AttentionLayer, BatchAttention
from gr_model.model.attention.plain import padded
from gr_model.model.attention.time_buckets import time_bucket
from gr_model.model.sequences import Sequences

QUERY_BLOCK = 512  # of 8000: 6 % of the cells that are calculated lie in the future


@dataclass(frozen=True)
class Layout:
    """Padded sequences, the longest first."""

    lengths: tuple[int, ...]
    scale: float

    def blocks(self) -> list[tuple[int, int, int]]:
        """(R, start, stop): the sequences that have queries in [start, stop)."""
        longest = self.lengths[0] if self.lengths else 0
        starts = range(0, longest, QUERY_BLOCK)
        return [(sum(n > start for n in self.lengths), start, min(start + QUERY_BLOCK, longest)) for start in starts]


@dataclass(frozen=True)
class BiasLayout(Layout):
    """With what the bias is looked up by. `bucket_of` gives the time bucket of seconds."""

    times_BS: torch.Tensor
    bucket_of: Callable[[torch.Tensor], torch.Tensor]

    def distance_QK(self, start: int, stop: int, device: torch.device) -> torch.Tensor:
        query, key = torch.arange(start, stop, device=device), torch.arange(stop, device=device)
        return (query[:, None] - key).clamp(min=0)

    def bucket_RQK(self, rows: int, start: int, stop: int) -> torch.Tensor:
        times_RS = self.times_BS[:rows]
        return self.bucket_of(times_RS[:, start:stop, None] - times_RS[:, None, :stop])


class BlockedAttention(BatchAttention):
    def __init__(self, sequences: Sequences, config: ModelConfig) -> None:
        self.sequences, self.config = sequences, config

    @staticmethod
    def fallback(sequences: Sequences) -> str | None:
        """Contextual tokens and targets have masks that the blocks do not know."""
        return None if sequences.causal else "plain"

    def attend(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, layer: AttentionLayer
    ) -> torch.Tensor:
        sequences = self.sequences
        # Contiguous, or every product would copy its operands.
        qkv = (padded(x, sequences).contiguous() for x in (q_LNA, k_LNA, v_LNV))
        if layer.bias is None:
            out_BNSV = _Attention.apply(*qkv, None, None, Layout(sequences.lengths, layer.scale))
        else:
            times_BS = jagged.to_padded(sequences.times_L, sequences.offsets_B1, sequences.longest)
            bucket_of = partial(time_bucket, config=self.config)
            layout = BiasLayout(sequences.lengths, layer.scale, times_BS, bucket_of)
            out_BNSV = _Attention.apply(*qkv, layer.bias.position, layer.bias.time, layout)
        out_BSV = out_BNSV.transpose(1, 2).flatten(2)
        return jagged.to_jagged(out_BSV, sequences.offsets_B1, sequences.total)


def _weights(scores_E: torch.Tensor, bias_E: torch.Tensor, start: int) -> torch.Tensor:
    x_E = scores_E.to(bias_E.dtype) + bias_E
    return torch.where(_seen(scores_E, start), x_E * x_E.sigmoid(), 0).to(scores_E.dtype)


def _weights_and_gradient(
    scores_E: torch.Tensor, bias_E: torch.Tensor, of_weights_E: torch.Tensor, start: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights, and the gradient of what SiLU is taken of."""
    x_E = scores_E.to(bias_E.dtype) + bias_E
    sigmoid_E, seen = x_E.sigmoid(), _seen(scores_E, start)
    slope_E = sigmoid_E * (1 + x_E * (1 - sigmoid_E))
    weights_E = torch.where(seen, x_E * sigmoid_E, 0)
    gradient_E = torch.where(seen, of_weights_E * slope_E, 0)
    return weights_E.to(scores_E.dtype), gradient_E.to(scores_E.dtype)


def _seen(scores_E: torch.Tensor, start: int) -> torch.Tensor:
    queries, keys = scores_E.shape[-2:]
    device = scores_E.device
    return torch.arange(keys, device=device) <= torch.arange(start, start + queries, device=device)[:, None]


@cache
def _functions(kind: str) -> tuple[Callable[..., torch.Tensor], Callable[..., tuple[torch.Tensor, torch.Tensor]]]:
    if kind != "cuda":
        return _weights, _weights_and_gradient
    return torch.compile(_weights, dynamic=True), torch.compile(_weights_and_gradient, dynamic=True)


class _Attention(torch.autograd.Function):
    """SiLU(q k + position[distance] + time[bucket]) v * scale -> [B, N, S, V]; rows of padding hold anything."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        position: torch.Tensor | None,
        time: torch.Tensor | None,
        layout: Layout,
    ) -> torch.Tensor:
        ctx.save_for_backward(q, k, v, position, time)
        ctx.layout = layout
        weigh, _ = _functions(q.device.type)
        out = torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            for rows, start, stop in layout.blocks():
                scores = q[:rows, :, start:stop] @ k[:rows, :, :stop].transpose(2, 3)
                weights = weigh(scores, _bias(position, time, layout, rows, start, stop, scores), start)
                out[:rows, :, start:stop] = weights @ v[:rows, :, :stop] * layout.scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (q, k, v, position, time), layout = ctx.saved_tensors, ctx.layout
        _, differentiate = _functions(q.device.type)
        dq = torch.zeros_like(q)
        dk, dv = (torch.zeros(x.shape, dtype=_wide(x), device=x.device) for x in (k, v))
        dposition, dtime = (None if x is None else torch.zeros_like(x) for x in (position, time))
        grad = grad * layout.scale
        with torch.autocast(q.device.type, enabled=False):
            for rows, start, stop in layout.blocks():
                q_b, grad_b = q[:rows, :, start:stop], grad[:rows, :, start:stop]
                k_b, v_b = k[:rows, :, :stop], v[:rows, :, :stop]
                scores = q_b @ k_b.transpose(2, 3)
                bias = _bias(position, time, layout, rows, start, stop, scores)
                weights, gradient = differentiate(scores, bias, grad_b @ v_b.transpose(2, 3), start)
                del scores, bias
                dv[:rows, :, :stop] += weights.transpose(2, 3) @ grad_b
                dq[:rows, :, start:stop] = gradient @ k_b
                dk[:rows, :, :stop] += gradient.transpose(2, 3) @ q_b
                if isinstance(layout, BiasLayout) and dposition is not None and dtime is not None:
                    of_bias_RQK = gradient.sum(1, dtype=dtime.dtype)
                    _add(dposition, layout.distance_QK(start, stop, q.device), of_bias_RQK.sum(0))
                    _add(dtime, layout.bucket_RQK(rows, start, stop), of_bias_RQK)
        return dq, dk.to(k.dtype), dv.to(v.dtype), dposition, dtime, None


def _bias(
    position: torch.Tensor,
    time: torch.Tensor,
    layout: Layout,
    rows: int,
    start: int,
    stop: int,
    scores: torch.Tensor,
) -> torch.Tensor:
    """[R, 1, Q, K], or one 0."""
    if not isinstance(layout, BiasLayout):
        return torch.zeros((), dtype=_wide(scores), device=scores.device)
    bucket_RQK = layout.bucket_RQK(rows, start, stop)
    of_time = time.index_select(0, bucket_RQK.flatten()).view(bucket_RQK.shape)
    return (of_time + position[layout.distance_QK(start, stop, scores.device)])[:, None]


def _add(sums: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
    """sums[index] += values. On CUDA bincount sums in shared memory first; index_add would queue for a few cells, but
    sorts them where bits must repeat."""
    if sums.is_cuda and torch.are_deterministic_algorithms_enabled():
        sums.index_add_(0, index.flatten(), values.flatten().to(sums.dtype))
        return
    sums += torch.bincount(index.flatten(), values.flatten(), minlength=len(sums)).to(sums.dtype)


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
