"""Differentiable lookups in tables that are not sharded: backward is the optimizer's step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hybrid_torchrec.modules.table import Lookup, TableModule, TablePart


class _PooledRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, part: TablePart, lookup: Lookup, offsets: Tensor, pooling: str, weights: Tensor | None
    ) -> Tensor:
        ctx.part, ctx.lookup, ctx.offsets, ctx.pooling = part, lookup, offsets, pooling
        ctx.weights = None if weights is None else weights.detach()
        return part.table.lookup_pooled(lookup.slots, offsets, pooling, ctx.weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_weights = None
        if ctx.needs_input_grad[5]:
            slots = ctx.part.slots_now(ctx.lookup)
            of_weights = ctx.part.table.sample_weight_gradients(slots, ctx.offsets, grad, ctx.pooling)
            of_weights = of_weights.to(ctx.weights.dtype)
        ctx.part.update(ctx.lookup, grad, offsets=ctx.offsets, pooling=ctx.pooling, weights=ctx.weights)
        return None, None, None, None, None, of_weights


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, part: TablePart, lookup: Lookup) -> Tensor:
        ctx.part, ctx.lookup = part, lookup
        return part.table.lookup(lookup.slots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        ctx.part.update(ctx.lookup, grad)
        return None, None, None


def pooled_rows(
    table: TableModule, ids: Tensor, offsets: Tensor, pooling: str, weights: Tensor | None, train: bool
) -> Tensor:
    """ids (L,) int64, offsets (B + 1,) int64, weights (L,) -> (B, D) float32."""
    lookup = table.whole.assign(ids, train=train)
    pooled: Tensor = _PooledRows.apply(table.weight, table.whole, lookup, offsets, pooling, weights)
    return pooled


def single_rows(table: TableModule, ids: Tensor, train: bool) -> Tensor:
    """ids (L,) int64 -> (L, D) float32."""
    rows: Tensor = _Rows.apply(table.weight, table.whole, table.whole.assign(ids, train=train))
    return rows
