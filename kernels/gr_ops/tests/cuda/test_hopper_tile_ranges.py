"""The tiles that the kernels for Hopper visit, against masks cell by cell; in Triton's interpreter or on a GPU."""

import pytest
import torch
import triton
import triton.language as tl
from cuda_cases import ON_GPU, Case
from gr_ops.cuda.hopper.tile_ranges import key_tile, key_tiles, query_tile, query_tiles
from gr_ops.cuda.hopper.work_list import list_tiles

DEVICE = "cuda" if ON_GPU else "cpu"
TILE = 16  # of the program's own side; the other's are of SMALL
SMALL = 8


@triton.jit
def _keys(
    out,
    first,
    last,
    length,
    context,
    history,
    group,
    window,
    whole,
    COUNTS: tl.constexpr,
    WINDOW: tl.constexpr,
    K: tl.constexpr,
):
    edge, stop, start_2, stop_2, start, inner, masked, wholes = key_tiles(
        first, last, length, context, history, group, window, whole, COUNTS, WINDOW, K
    )
    tl.store(out, masked)
    tl.store(out + 1, wholes)
    for j in range(masked + wholes):
        at, end = key_tile(j, edge, stop, start_2, stop_2, start, inner, masked, COUNTS, K)
        tl.store(out + 2 + 2 * j, at)
        tl.store(out + 3 + 2 * j, end)


@triton.jit
def _queries(
    out,
    first,
    last,
    length,
    context,
    history,
    group,
    window,
    whole,
    COUNTS: tl.constexpr,
    WINDOW: tl.constexpr,
    Q: tl.constexpr,
):
    start, stop, start_2, stop_2, inner, behind, masked, wholes = query_tiles(
        first, last, length, context, history, group, window, whole, COUNTS, WINDOW, Q
    )
    tl.store(out, masked)
    tl.store(out + 1, wholes)
    for j in range(masked + wholes):
        at, end = query_tile(j, start, stop, start_2, stop_2, inner, behind, masked, COUNTS, Q)
        tl.store(out + 2 + 2 * j, at)
        tl.store(out + 3 + 2 * j, end)


# A row of 45 tokens ends in the middle of both tiles, one of 48 at their ends; 3 is less than a tile.
ROWS = {
    "causal": {},
    "contexts": {"contexts": 5},
    "contexts of more than a tile": {"contexts": 21},
    "targets": {"targets": 7},
    "nothing but targets": {"targets": 3},
    "targets of more than a tile, groups": {"targets": 19, "contexts": 4, "group": 3},
    "a window": {"window": 6},
    "a wide window": {"window": 30},
    "a window, contexts": {"window": 9, "contexts": 6},
    "a window, contexts, targets": {"window": 12, "contexts": 6, "targets": 10},
    "a window with a whole end": {"window": 5, "whole": 9, "contexts": 3, "targets": 4},
}


@pytest.mark.parametrize("tile", [TILE, SMALL])  # as of 128 and 64; the keys of wide heads' gradients are 64 and 64
@pytest.mark.parametrize("length", [45, 48, 3])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("side", ["keys", "queries"])
def test_tiles_hold_what_is_seen_once(side, name, length, tile):
    row = {key: min(value, length) if key in ("contexts", "targets") else value for key, value in ROWS[name].items()}
    contexts, targets = row.get("contexts", 0), row.get("targets", 0)
    contexts = min(contexts, length - targets)
    case = Case(
        (length,),
        contexts=(contexts,),
        targets=(targets,),
        group=row.get("group", 0),
        window=row.get("window", 0),
        whole=row.get("whole", 0),
    )
    seen = torch.tensor(case.seen(0))  # [query, key]
    if side == "queries":
        seen = seen.T
    counts = bool(contexts or targets or case.window)
    kernel = _keys if side == "keys" else _queries
    empty = 0
    for first in range(0, length, tile):
        last = min(first + tile, length) - 1
        out = torch.full((64,), -1, dtype=torch.int32, device=DEVICE)
        kernel[(1,)](
            out,
            first,
            last,
            length,
            contexts,
            length - targets,
            max(case.group, 1),
            case.window,
            case.whole,
            counts,
            case.window > 0,
            SMALL,
        )
        masked, wholes, *tiles = out.tolist()
        tiles = list(zip(tiles[::2], tiles[1::2]))[: masked + wholes]
        assert masked > 0  # the kernels count on it
        visited = torch.zeros(length, dtype=torch.int64)
        for number, (at, end) in enumerate(tiles):
            stop = min(at + SMALL, end, length)
            visited[at:stop] += 1
            part = seen[first : last + 1, at:stop]
            if number >= masked:
                assert stop == at + SMALL and part.all()
            empty += not part.any()
        assert visited.max() <= 1
        assert not seen[first : last + 1, visited == 0].any()
    # Whole tiles that nothing sees cost time: none but where a window and an end that it does not narrow meet.
    assert empty == 0 or case.window and case.whole or contexts and side == "queries"


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("lengths", [(40, 0, 7, 64, 7, 1), (20, 20, 20), (0, 0), (16,), tuple(range(40))])
def test_the_list_has_every_tile_once_and_long_rows_first(lengths, rising, monkeypatch):
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], device=DEVICE)
    tiles = {(s, t) for s, n in enumerate(lengths) for t in range(-(-n // TILE))}
    capacity = sum(lengths) // TILE + len(lengths)
    items = torch.full((capacity + 1,), -1, device=DEVICE)
    # Chunks of 16 sequences: 40 need three.
    list_tiles[(len(lengths),)](offsets, items, len(lengths), sum(lengths), max(lengths), capacity, TILE, 16, rising)
    count, *found = items.tolist()
    assert count == len(tiles)
    found = [(item >> 32, item & 0xFFFFFFFF) for item in found[:count]]
    assert set(found) == tiles
    in_order = [lengths[sequence] for sequence, _ in found]
    assert in_order == sorted(in_order, reverse=True)
    for sequence in range(len(lengths)):
        own = [tile for s, tile in found if s == sequence]
        assert own == sorted(own, reverse=not rising)


def test_offsets_that_lie_stay_inside_of_the_list():
    """Beyond the values, and falling: nothing is written behind the list's end."""
    offsets = torch.tensor([0, 90, 10, 1000, -5, 64], device=DEVICE)
    capacity = 64 // TILE + 5
    items = torch.full((capacity + 9,), -7, device=DEVICE)
    list_tiles[(5,)](offsets, items, 5, 64, 64, capacity, TILE, 16, False)
    assert (items[capacity + 1 :] == -7).all()
    assert 0 <= int(items[0]) <= capacity
