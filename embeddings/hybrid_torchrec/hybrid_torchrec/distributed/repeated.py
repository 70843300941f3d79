"""Rows of distinct ids, once for each of their values, differentiably."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def repeated(rows: Tensor, index: Tensor) -> Tensor:
    """rows[index]: rows (U, D) float32, index (L,) int64 -> (L, D). On the CPU by the tables' own kernels."""
    if rows.device.type != "cpu":
        return rows.index_select(0, index)
    out: Tensor = _Repeated.apply(rows, index)
    return out


class _Repeated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = rows.shape[0]
        return torch.ops.hybrid_torchrec.gather_rows(rows.contiguous(), index)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        order, _, starts = torch.ops.hybrid_torchrec.group_positions(index, ctx.rows)
        return torch.ops.hybrid_torchrec.pool_rows(grads.contiguous(), order, starts, False, None), None
