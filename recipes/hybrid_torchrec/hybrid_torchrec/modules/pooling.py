"""Pooling of rows that were looked up once for each distinct id."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torchrec.modules.embedding_configs import PoolingType


def pool(
    rows_UD: Tensor, index_L: Tensor, offsets: Tensor, pooling: PoolingType, weights_L: Tensor | None = None
) -> Tensor:
    """One vector for each bag.

    Args:
        rows_UD: (U, D) float32.
        index_L: (L,) int64, row of each value.
        offsets: (B + 1,), ascending; bag b holds values offsets[b] to offsets[b + 1].
        pooling: SUM: sum of weight * row. MEAN: that sum by the number of values, as fbgemm's weighted mean.
        weights_L: (L,) of any floating type; 1 where None.

    Returns (B, D) float32; empty bags are 0.
    """
    bags = offsets.numel() - 1
    if rows_UD.size(0) == 0 or bags == 0:
        # Every bag is empty; the product keeps the graph, so that backward reaches every rank.
        return rows_UD.new_zeros(bags, rows_UD.size(1)) + rows_UD.sum() * 0.0
    mean = pooling == PoolingType.MEAN
    if rows_UD.device.type == "npu":
        pooled = _sum_by_index(rows_UD, index_L, offsets, weights_L)
    elif weights_L is None:
        mode = "mean" if mean else "sum"
        return functional.embedding_bag(index_L, rows_UD, offsets.long(), mode=mode, include_last_offset=True)
    else:
        pooled = functional.embedding_bag(
            index_L, rows_UD, offsets.long(), mode="sum", per_sample_weights=weights_L.float(), include_last_offset=True
        )
    if mean:
        pooled = pooled / offsets.diff().clamp(min=1).unsqueeze(1)
    return pooled


def _sum_by_index(rows_UD: Tensor, index_L: Tensor, offsets: Tensor, weights_L: Tensor | None) -> Tensor:
    """By operators that differentiate on every device: an NPU has no embedding_bag with a gradient of its weights."""
    values_LD = rows_UD.index_select(0, index_L)
    if weights_L is not None:
        values_LD = values_LD * weights_L.float().unsqueeze(1)
    bags = offsets.numel() - 1
    bag_L = torch.arange(bags, device=offsets.device).repeat_interleave(offsets.diff(), output_size=index_L.numel())
    return rows_UD.new_zeros(bags, rows_UD.size(1)).index_add(0, bag_L, values_LD)
