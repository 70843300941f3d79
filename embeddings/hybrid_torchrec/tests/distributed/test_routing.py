"""Placement and routing without processes: the parts of all ranks are computed here, and moved by hand."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hybrid_torchrec.distributed.placement import ColumnShard, place
from hybrid_torchrec.distributed.routing import Distinct, make_route, transpose_blocks
from hybrid_torchrec.modules import HashEmbeddingBagConfig
from torch import Tensor
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec.distributed.types import ParameterSharding

MASK = 2**64 - 1


def mix64(x: int) -> int:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014) in Python's integers."""
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def shard(table: str, column: int, width: int, *ranks: int) -> ColumnShard:
    return ColumnShard(table=table, column=column, width=width, ranks=ranks)


LAYOUTS = {
    "one table, all ranks": (3, [[shard("a", 0, 4, 0, 1, 2)]]),
    "two groups": (2, [[shard("a", 0, 4, 0, 1), shard("b", 0, 4, 1)], [shard("c", 0, 8, 0)]]),
    "cut columns": (4, [[shard("a", 0, 4, 3), shard("a", 4, 4, 1), shard("b", 0, 4, 0, 1, 2, 3)]]),
    "nodes": (4, [[shard("a", 0, 4, 2, 3)], [shard("b", 0, 2, 0, 1), shard("b", 2, 2, 2, 3)]]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_every_rank_gets_the_rows_it_asked_for(layout: str, seed: int) -> None:
    world, by_group = LAYOUTS[layout]
    shards = [one for group in by_group for one in group]
    groups, start = [], 0
    for group in by_group:
        groups.append(range(start, start + len(group)))
        start += len(group)
    generator = torch.Generator().manual_seed(seed)
    tables = sorted({one.table for one in shards})
    batches = [{table: random_ids(generator) for table in tables} for _ in range(world)]
    distinct = [{t: Distinct.of(ids) for t, ids in batch.items()} for batch in batches]
    routes = [make_route([of[one.table] for one in shards], shards, groups, world) for of in distinct]

    for rank in range(world):
        sent = routes[rank].ids.split(routes[rank].counts.sum(1).tolist())
        for owner in range(world):
            blocks = sent[owner].split(routes[rank].counts[owner].tolist())
            for one, ids in zip(shards, blocks):
                assert all(one.ranks[mix64(int(id_)) % len(one.ranks)] == owner for id_ in ids)
    # The answer to a group: the owners' rows in the order of ranks, each rank's in the order of its shards.
    for rank in range(world):
        order = [(int(id_), number) for number, id_ in _by_rank_and_shard(routes[rank].ids, routes[rank].counts)]
        for group in groups:
            answer = [(id_, number) for id_, number in order if number in group]
            for number in group:
                table = shards[number].table
                got = [answer[row] for row in routes[rank].rows[number][distinct[rank][table].inverse]]
                assert got == [(int(id_), number) for id_ in batches[rank][table]]
        if len(shards) == 1:
            occurrences = dict(zip(routes[rank].ids.tolist(), routes[rank].occurrences.tolist()))
            assert occurrences == Counter(batches[rank]["a"].tolist())


def random_ids(generator: torch.Generator) -> Tensor:
    """0 to 11 of ten ids."""
    return torch.randint(-5, 5, (int(torch.randint(0, 12, (1,), generator=generator)),), generator=generator)


def _by_rank_and_shard(ids: Tensor, counts: Tensor) -> list[tuple[int, Tensor]]:
    blocks = ids.split(counts.flatten().tolist())
    return [(block % counts.size(1), id_) for block, part in enumerate(blocks) for id_ in part]


@pytest.mark.parametrize(("count", "groups"), [(0, 0), (0, 3), (1, 1), (200, 7), (50, 400)])
def test_positions_are_grouped_as_by_a_stable_sort(count: int, groups: int) -> None:
    keys = torch.randint(max(groups, 1), (count,), generator=torch.Generator().manual_seed(count))
    order, places, starts = torch.ops.hybrid_torchrec.group_positions(keys, groups)
    expected = sorted(range(count), key=keys.tolist().__getitem__)
    assert order.tolist() == expected
    assert places[order].tolist() == list(range(count))
    assert starts.tolist() == [sum(key < group for key in keys.tolist()) for group in range(groups + 1)]


@pytest.mark.parametrize("key", [-1, 4])
def test_a_key_of_no_group_is_refused(key: int) -> None:
    with pytest.raises(RuntimeError, match=rf"keys\[1\] is {key}, of 4 groups"):
        torch.ops.hybrid_torchrec.group_positions(torch.tensor([3, key]), 4)


def test_transposed_blocks() -> None:
    counts = torch.tensor([[2, 0, 1], [1, 3, 0]])
    items = ["00", "00", "02", "10", "11", "11", "11"]
    order = transpose_blocks(counts, torch.device("cpu")).tolist()
    assert [items[i] for i in order] == ["00", "00", "10", "11", "11", "11", "02"]
    assert transpose_blocks(torch.zeros(2, 2, dtype=torch.int64), torch.device("cpu")).numel() == 0


def plan(kind: str, *shards: tuple[int, int, int, int, int]) -> ParameterSharding:
    """shards: first row, rows, first column, columns, rank."""
    metadata = [
        ShardMetadata(shard_offsets=[row, column], shard_sizes=[rows, columns], placement=f"rank:{rank}/cpu")
        for row, rows, column, columns, rank in shards
    ]
    return ParameterSharding(kind, "fused", sharding_spec=EnumerableShardingSpec(metadata))


CONFIG = HashEmbeddingBagConfig(name="t", embedding_dim=8, num_embeddings=10)


def test_places() -> None:
    rows = plan("row_wise", (0, 5, 0, 8, 0), (5, 5, 0, 8, 1), (10, 0, 0, 8, 2))
    assert place(CONFIG, rows, 3) == [shard("t", 0, 8, 0, 1, 2)]
    assert place(CONFIG, plan("table_wise", (0, 10, 0, 8, 2)), 3) == [shard("t", 0, 8, 2)]
    columns = plan("column_wise", (0, 10, 4, 4, 0), (0, 10, 0, 4, 1))
    assert place(CONFIG, columns, 2) == [shard("t", 0, 4, 1), shard("t", 4, 4, 0)]
    grid = plan("grid_shard", (0, 5, 0, 4, 0), (5, 5, 0, 4, 1), (0, 5, 4, 4, 2), (5, 5, 4, 4, 3))
    assert place(CONFIG, grid, 4) == [shard("t", 0, 4, 0, 1), shard("t", 4, 4, 2, 3)]


@pytest.mark.parametrize(
    "sharding, message",
    [
        (ParameterSharding("data_parallel", "dense"), "different ids"),
        (ParameterSharding("row_wise", "fused"), "no list of shards"),
        (plan("column_wise", (0, 10, 0, 4, 0)), "4 columns, the table 8"),
        (plan("column_wise", (0, 10, 0, 2, 0), (0, 10, 4, 4, 0)), "column 2"),
        (plan("table_wise", (0, 10, 0, 8, 5)), "rank 5 of 2"),
        (ParameterSharding("diagonal", "fused"), "diagonal"),
    ],
)
def test_plans_that_cannot_be(sharding: ParameterSharding, message: str) -> None:
    with pytest.raises(ValueError, match=f"table t: .*{message}"):
        place(CONFIG, sharding, 2)


def test_ids_are_spread_evenly() -> None:
    """Also ids that count up, and those that differ in their high bits only."""
    for ids in (torch.arange(6000), torch.arange(6000) << 40):
        for ranks in (2, 3, 8):
            counts = torch.bincount(shard("t", 0, 8, *range(ranks)).owner(ids), minlength=ranks)
            assert (counts - 6000 / ranks).abs().max() < 5 * (6000 / ranks) ** 0.5
