"""Differentiable lookups in tables that are not sharded: backward is the optimizer's step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hybrid_torchrec.modules.grouping import Bags, GroupLookup, PartGroup
from hybrid_torchrec.modules.table import TableModule

# Each table's rows are an output of their own: a table that the loss does not need gets no gradient, and no step.


class _PooledRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, group: PartGroup, lookup: GroupLookup, bags: Bags, weights: Tensor | None, *anchors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.group, ctx.lookup = group, lookup
        ctx.bags = Bags(bags.offsets, bags.counts, bags.pooling, None if weights is None else weights.detach())
        ctx.set_materialize_grads(False)
        return group.pooled(lookup, ctx.bags).split(list(bags.counts))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        of_weights = None
        if ctx.needs_input_grad[3]:
            of_weights = ctx.group.weight_gradients(ctx.lookup, grads, ctx.bags).to(ctx.bags.weights.dtype)
        ctx.group.update(ctx.lookup, grads, ctx.bags)
        return None, None, None, of_weights, *(None for _ in grads)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: PartGroup, lookup: GroupLookup, *anchors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.lookup = group, lookup
        ctx.set_materialize_grads(False)
        return group.rows(lookup).split(list(lookup.lengths))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[None, ...]:
        ctx.group.update(ctx.lookup, grads)
        return None, None, *(None for _ in grads)


def pooled_rows(
    group: PartGroup,
    tables: Sequence[TableModule],
    ids: Sequence[Tensor],
    bags: Bags,
    weights: Tensor | None,
    train: bool,
) -> tuple[Tensor, ...]:
    """Of each table, ids (L,) int64 -> (B, D) float32; weights (L,) of all of them are differentiable."""
    lookup = group.assign(ids, train=train)
    pooled: tuple[Tensor, ...] = _PooledRows.apply(group, lookup, bags, weights, *(table.weight for table in tables))
    return pooled


def single_rows(
    group: PartGroup, tables: Sequence[TableModule], ids: Sequence[Tensor], train: bool
) -> tuple[Tensor, ...]:
    """Of each table, ids (L,) int64 -> (L, D) float32."""
    lookup = group.assign(ids, train=train)
    rows: tuple[Tensor, ...] = _Rows.apply(group, lookup, *(table.weight for table in tables))
    return rows
