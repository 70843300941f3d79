"""Lookups whose backward pass is the table's update; no gradient of the whole table ever exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from hybrid_torchrec.table.trained_rows import TrainedRows


def embed(table: TrainedRows, slots: torch.Tensor) -> torch.Tensor:
    return _Embed.apply(_anchor(slots), table, slots)


def embed_pooled(
    table: TrainedRows, slots: torch.Tensor, offsets: torch.Tensor, pooling: str, weights: torch.Tensor | None
) -> torch.Tensor:
    return _EmbedPooled.apply(_anchor(slots), table, slots, offsets, pooling, weights)


def _anchor(slots: torch.Tensor) -> torch.Tensor:
    """Makes the output differentiable; its own gradient is None."""
    return torch.empty(0, device=slots.device, requires_grad=True)


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, table: TrainedRows, slots: torch.Tensor) -> torch.Tensor:
        ctx.table, ctx.slots = table, slots
        return table.lookup(slots)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, None, None]:
        ctx.table.update(ctx.slots, grad, apply=not ctx.table.accumulate)
        return None, None, None


class _EmbedPooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        table: TrainedRows,
        slots: torch.Tensor,
        offsets: torch.Tensor,
        pooling: str,
        weights: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.table, ctx.slots, ctx.offsets, ctx.pooling = table, slots, offsets, pooling
        ctx.weights = None if weights is None else weights.detach()
        return table.lookup_pooled(slots, offsets, pooling, ctx.weights)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        table = ctx.table
        of_weights = None
        if ctx.needs_input_grad[5]:
            of_weights = table.sample_weight_gradients(ctx.slots, ctx.offsets, grad, ctx.pooling).to(ctx.weights.dtype)
        table.update(
            ctx.slots, grad, offsets=ctx.offsets, pooling=ctx.pooling, weights=ctx.weights, apply=not table.accumulate
        )
        return None, None, None, None, None, of_weights
