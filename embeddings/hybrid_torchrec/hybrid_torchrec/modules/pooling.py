"""Bags, and their sums of rows that were looked up once for each distinct id."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def sum_bags(rows_UD: Tensor, index_L: Tensor, offsets: Tensor, weights_L: Tensor | None = None) -> Tensor:
    """Sum of weight * row over each bag, differentiable in rows and weights.

    Args:
        rows_UD: (U, D) float32.
        index_L: (L,) int64, row of each value.
        offsets: (B + 1,) int64, ascending; bag b has values offsets[b] to offsets[b + 1].
        weights_L: (L,) float32; 1 where None.

    Returns (B, D) float32; empty bags are 0.
    """
    if rows_UD.device.type == "npu":
        return _sum_by_index(rows_UD, index_L, offsets, weights_L)
    return functional.embedding_bag(
        index_L, rows_UD, offsets, mode="sum", per_sample_weights=weights_L, include_last_offset=True
    )


def _sum_by_index(rows_UD: Tensor, index_L: Tensor, offsets: Tensor, weights_L: Tensor | None) -> Tensor:
    """In operators that are differentiable on every device."""
    values_LD = rows_UD.index_select(0, index_L)
    if weights_L is not None:
        values_LD = values_LD * weights_L.unsqueeze(1)
    bags = offsets.numel() - 1
    bag_L = torch.arange(bags, device=offsets.device).repeat_interleave(offsets.diff(), output_size=index_L.numel())
    return rows_UD.new_zeros(bags, rows_UD.size(1)).index_add(0, bag_L, values_LD)


def join_offsets(offsets: Sequence[Tensor]) -> Tensor:
    """Of bags that follow each other: each (B + 1,) from 0 -> (sum of B + 1,) int64."""
    lengths = torch.cat([part.diff() for part in offsets]).long()
    joined = lengths.new_zeros(lengths.numel() + 1)
    torch.cumsum(lengths, 0, out=joined[1:])
    return joined
