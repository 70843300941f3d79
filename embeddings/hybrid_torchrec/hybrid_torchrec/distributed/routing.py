"""Which distinct ids a rank asks for, in the order in which it asks, and where each answer will lie.

Legend: L ids with repetitions, U distinct ids, M = sum over column shards of U, S column shards, W ranks.
Column shards are numbered by group (same width and storage dtype: their rows travel in one tensor), so that
(rank, group, shard) order is (rank, shard) order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hybrid_torchrec.distributed.placement import ColumnShard


@dataclass(frozen=True)
class Distinct:
    """The distinct ids of one table in a batch."""

    ids: Tensor  # (U,) int64
    inverse: Tensor  # (L,) int64: ids[inverse] are the table's ids in the batch
    counts: Tensor  # (U,) int64: how often each occurs in the batch

    @classmethod
    def of(cls, ids: Tensor) -> Distinct:
        if ids.device.type == "cpu":  # without a sort: a tenth of the time
            return cls(*torch.ops.hybrid_torchrec.distinct(ids))
        return cls(*torch.unique(ids, return_inverse=True, return_counts=True))


@dataclass(frozen=True)
class Route:
    """What one rank sends, before any exchange."""

    ids: Tensor  # (M,) int64, by rank, then by shard
    occurrences: Tensor  # (M,) int64, of each id in this rank's batch
    counts: Tensor  # (W, S) int64 on the ids' device: ids for each rank and shard
    rows: list[Tensor]  # per shard, (U,): which row of its group's answer belongs to each distinct id of its table


def make_route(
    distinct: Sequence[Distinct], shards: Sequence[ColumnShard], groups: Sequence[Sequence[int]], ranks: int
) -> Route:
    """distinct: of the table of each shard. groups: numbers of the shards of each group, ascending."""
    sizes = [part.ids.numel() for part in distinct]
    block_M = _joined([shard.owner(part.ids) for shard, part in zip(shards, distinct)])
    if len(shards) > 1:
        shard_M = block_M.new_tensor(range(len(shards))).repeat_interleave(
            block_M.new_tensor(sizes), output_size=sum(sizes)
        )
        block_M = block_M * len(shards) + shard_M
    order_M, sent_at_M, counts = _by_block(block_M, ranks * len(shards))
    counts = counts.view(ranks, len(shards))
    if len(groups) > 1:
        # The answer of a group holds its own blocks only.
        shift = torch.empty_like(counts)
        starts = block_starts(counts.flatten()).view_as(counts)
        for group in groups:
            index = starts.new_tensor(list(group))
            shift[:, index] = block_starts(counts[:, index].flatten()).view(ranks, -1) - starts[:, index]
        sent_at_M = sent_at_M + shift.flatten()[block_M]
    return Route(
        ids=_joined([part.ids for part in distinct]).index_select(0, order_M),
        occurrences=_joined([part.counts for part in distinct]).index_select(0, order_M),
        counts=counts,
        rows=list(sent_at_M.split(sizes)),
    )


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _by_block(block_M: Tensor, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """The order by block, stable (M,); the place of each in it (M,); how many each block has (blocks,)."""
    if block_M.device.type == "cpu":  # without a sort: a tenth of the time
        order_M, places_M, starts = torch.ops.hybrid_torchrec.group_positions(block_M, blocks)
        return order_M, places_M, starts.diff()
    order_M = torch.argsort(block_M, stable=True)
    places_M = torch.empty_like(order_M)
    places_M[order_M] = torch.arange(order_M.numel(), device=order_M.device)
    return order_M, places_M, torch.bincount(block_M, minlength=blocks)


def block_starts(sizes: Tensor) -> Tensor:
    """Exclusive cumulative sum. sizes (K,) -> (K,)."""
    return sizes.cumsum(0) - sizes


def transpose_blocks(counts: Tensor, device: torch.device) -> Tensor:
    """The permutation that brings items from (a, b) block order into (b, a) order.

    counts (A, B) int64 on the host: items of block (a, b). Returns (N,) int64 on `device`, so that
    items[permutation] are in (b, a) order.
    """
    starts = block_starts(counts.flatten()).view_as(counts).t().flatten()
    sizes = counts.t().flatten()
    total = int(sizes.sum())
    shift = (starts - block_starts(sizes)).to(device)
    return torch.arange(total, device=device) + shift.repeat_interleave(sizes.to(device), output_size=total)
