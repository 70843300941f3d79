"""The tables that the relative bias on Hopper reads, against loops; in Triton's interpreter or on a GPU."""

import pytest
import time_buckets
import torch
from cuda_cases import ON_GPU
from gr_ops.cuda.hopper import times

DEVICE = "cuda" if ON_GPU else "cpu"
LENGTHS = (70, 0, 1, 33, 32)
BLOCK, CHUNK, FAR = 16, 32, 10**6
HALF = 0.5
TIME = torch.randn(time_buckets.COUNT, generator=torch.Generator().manual_seed(1))
GAPS = {"minutes": 600, "years": 2**28, "ages": 2**44}


def tables(seconds, position, lengths, listed=True, lies=False, of_queries=True):
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], device=DEVICE)
    if lies:
        offsets = offsets.flip(0) * 3
    total, longest = sum(lengths), max(lengths)
    blocks, pairs = -(-longest // BLOCK), (times.BEFORE + len(position) + times.BEHIND + 1) // 2
    cells = time_buckets.cells(torch.device(DEVICE))
    band = torch.full((4 * pairs,), torch.nan, device=DEVICE)
    made = torch.full((times.size(total, 64),), -1, dtype=torch.int64, device=DEVICE)
    codes = torch.full((len(lengths), blocks, times.AROUND + blocks), -1, dtype=torch.int64, device=DEVICE)
    searched = 64 // times.SEARCHED
    grid = (len(lengths) * blocks + searched + -(-len(band) // CHUNK),)
    numbers = (len(lengths), total, longest, blocks, len(position), time_buckets.COUNT, pairs)
    layout, sizes = (BLOCK, times.DIAGONALS), (times.PADDING, times.HEADER, times.CELLS, FAR)
    arguments = (position, TIME.to(DEVICE), seconds, cells, offsets, band, made, HALF, *numbers)
    times.prepare[grid](*arguments, listed, 64, times.SEARCHED, *layout, times.BEFORE, *sizes, CHUNK)
    # Two blocks of the others at a time: a row has several.
    constants = (listed, of_queries, times.FIRST, times.AROUND, *layout, *sizes, 2)
    grid = (len(lengths) * blocks, 1 + times.DIAGONALS)
    times.encode[grid](offsets, made, codes, total, longest, blocks, *constants)
    assert {int(x) for x in codes[:, 0, 0]} <= {-1, made.data_ptr()}
    return band.cpu(), parts_of(made.cpu(), total), codes.cpu()


def parts_of(made, total):
    """By name, as the head of times.py lists them."""
    padded, near = total + times.PADDING, times.DIAGONALS * BLOCK
    assert made[0] == padded
    sizes = (times.HEADER, times.CELLS, *(padded,) * 4, padded * near // 4, 2 * 64)
    names = ("header", "cells", "lows", "highs", "times", "parts", "nears", "buckets")
    found = dict(zip(names, made[: sum(sizes)].split(sizes)))
    found["nears"] = found["nears"].view(torch.float16).view(padded, times.DIAGONALS, BLOCK)
    found["buckets"] = found["buckets"].view(-1, 2)
    return found


@pytest.mark.parametrize("of_queries", [True, False], ids=["of queries", "of keys"])
@pytest.mark.parametrize("gaps", GAPS)
def test_tables(gaps, of_queries):
    rows = [10**9 + (torch.rand(n) * GAPS[gaps]).long().cumsum(0) for n in LENGTHS]
    rows[3] = rows[3].flip(0)  # in no order
    position = torch.randn(75)
    found = tables(torch.cat(rows).to(DEVICE), position.to(DEVICE), LENGTHS, of_queries=of_queries)
    check(found, rows, position, of_queries)


def test_rows_of_one_length_do_not_ask_the_offsets():
    """As the kernels do, which would wait for ever for what offsets that lie leave out."""
    rows = [10**9 + (torch.rand(40) * 600).long().cumsum(0) for _ in range(3)]
    position = torch.randn(44)
    check(tables(torch.cat(rows).to(DEVICE), position.to(DEVICE), (40,) * 3, listed=False, lies=True), rows, position)


def check(found, rows, position, of_queries=True):
    band, made, codes = found
    place = torch.arange(len(band))
    second = place >= len(band) // 2
    distance = (place - second * (len(band) // 2 - 1) - times.BEFORE).clamp(0, len(position) - 1)
    assert torch.equal(band, position[distance] * HALF)
    assert torch.equal(made["cells"], time_buckets.cells(torch.device("cpu")))
    least, numbers = made["buckets"].T
    scaled = TIME * HALF
    assert torch.equal(numbers.int()[: len(TIME)].view(torch.float32), scaled)
    for bucket in range(1, time_buckets.COUNT):
        second = int(least[bucket])
        assert time_buckets.bucket(second) >= bucket > time_buckets.bucket(second - 1), bucket
    behind = [made[name][sum(map(len, rows)) :] for name in ("lows", "highs", "times", "parts", "nears")]
    assert all(len(x) == times.PADDING and not x.any() for x in behind)
    begin = 0
    for number, row in enumerate(rows):
        assert torch.equal(made["times"][begin : begin + len(row)], row)
        blocks = row.split(BLOCK) if len(row) else ()
        for block, own in enumerate(blocks):
            first = block * BLOCK
            low, high = int(own.min()), int(own.max())
            assert (made["lows"][begin + first], made["highs"][begin + first]) == (low, high)
            parts = made["parts"][begin + first :][: len(own)]
            assert torch.equal(parts.int(), (own - low).clamp(max=FAR).int())
            assert torch.equal((parts >> 32).int(), (high - own).clamp(max=FAR).int())
            for other, others in enumerate(blocks):
                query, key = (own, others) if of_queries else (others, own)
                soonest = int(query.min()) - int(key.max())
                bucket = time_buckets.bucket(soonest)
                more = time_buckets.bucket(int(query.max()) - int(key.min())) - bucket
                far = more > 0 and int(least[bucket + more]) - soonest >= FAR
                code = int(codes[number, block, times.FIRST + other])
                assert (code >> 32) & (2**32 - 1) == bucket | more << 16 | far << 31
                assert torch.tensor(code).int().view(torch.float32) == scaled[bucket]
            for diagonal in range(times.DIAGONALS):
                other = block - diagonal if of_queries else block + diagonal
                if not 0 <= other < len(blocks):
                    continue
                apart = (own[:, None] - blocks[other][None, :]) * (1 if of_queries else -1)
                right = scaled[apart.clone().apply_(time_buckets.bucket)].half()
                near = made["nears"][begin + first :][: len(own), diagonal, : len(blocks[other])]
                assert torch.equal(near, right)
        begin += len(row)
