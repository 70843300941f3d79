"""Shares: which ids of a table a publisher holds, and whether those of all publishers are the whole table.

The holder of share `shard` of `shards` has the ids with rank_of(id, shards) == shard. Holders are some of the ranks, in
any order: one with table_wise, those of one node with table_row_wise and grid_shard, all with row_wise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Share = tuple[int, int]  # shard, shards


def faults(publishers: Sequence[Mapping[str, Share]]) -> list[str]:
    """What keeps the tables from being whole; publishers: {table: share} of each rank."""
    found = []
    for table in sorted({name for shares in publishers for name in shares}):
        fault = _fault([(rank, shares[table]) for rank, shares in enumerate(publishers) if table in shares])
        if fault:
            found.append(f"table {table!r}: {fault}")
    return found


def _fault(holders: list[tuple[int, Share]]) -> str:
    counts = sorted({shards for _, (_, shards) in holders})
    if len(counts) > 1:
        told = ", ".join(f"{shard} of {shards} on rank {rank}" for rank, (shard, shards) in holders)
        return f"its shards are of different divisions of the ids: {told}"
    by_shard: dict[int, list[int]] = {}
    for rank, (shard, _) in holders:
        by_shard.setdefault(shard, []).append(rank)
    wrong = [f"shard {shard} is on ranks {ranks}" for shard, ranks in sorted(by_shard.items()) if len(ranks) > 1]
    wrong += [f"no rank has shard {shard} of {counts[0]}" for shard in range(counts[0]) if shard not in by_shard]
    wrong += [f"shard {shard} is not one of {counts[0]}" for shard in by_shard if not 0 <= shard < counts[0]]
    return "; ".join(wrong)
