"""The tables that the relative bias on Hopper reads, against loops; in Triton's interpreter or on a GPU."""

import pytest
import time_buckets
import torch
from cuda_cases import ON_GPU
from gr_ops.cuda.hopper import times

DEVICE = "cuda" if ON_GPU else "cpu"
LENGTHS = (70, 0, 1, 33, 32)
BLOCK, CHUNK, FAR = 16, 32, 10**6
GAPS = {"minutes": 600, "years": 2**28, "ages": 2**44}


def tables(seconds, position, lengths, listed=True, lies=False):
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], device=DEVICE)
    if lies:
        offsets = offsets.flip(0) * 3
    total, longest = sum(lengths), max(lengths)
    blocks = -(-longest // BLOCK)
    cells = time_buckets.cells(torch.device(DEVICE))
    band = torch.full((times.BEFORE + len(position) + times.BEHIND,), torch.nan, device=DEVICE)
    least = torch.zeros(64, dtype=torch.int64, device=DEVICE)
    lows, highs = torch.full((2, total), -1, dtype=torch.int64, device=DEVICE)
    afters, befores = torch.full((2, total), -1, dtype=torch.int32, device=DEVICE)
    codes = torch.full((len(lengths), blocks, blocks), -1, dtype=torch.int32, device=DEVICE)
    grid = (len(lengths) * blocks + 1 + -(-len(band) // CHUNK),)
    made = (band, least, lows, highs, afters, befores)
    numbers = (len(lengths), total, longest, blocks, len(position))
    constants = (listed, 64, BLOCK, times.BEFORE, times.BEHIND, FAR, CHUNK)
    times.prepare[grid](position, seconds, cells, offsets, *made, *numbers, *constants)
    # Two blocks of keys at a time: a row has several.
    times.encode[(len(lengths) * blocks,)](cells, offsets, lows, highs, codes, total, longest, blocks, listed, BLOCK, 2)
    return [x.cpu() for x in (*made, codes)]


@pytest.mark.parametrize("gaps", GAPS)
def test_tables(gaps):
    rows = [10**9 + (torch.rand(n) * GAPS[gaps]).long().cumsum(0) for n in LENGTHS]
    rows[3] = rows[3].flip(0)  # in no order
    position = torch.randn(75)
    found = tables(torch.cat(rows).to(DEVICE), position.to(DEVICE), LENGTHS)
    check(found, rows, position)


def test_rows_of_one_length_do_not_ask_the_offsets():
    """As the kernels do, which would wait for ever for what offsets that lie leave out."""
    rows = [10**9 + (torch.rand(40) * 600).long().cumsum(0) for _ in range(3)]
    position = torch.randn(44)
    check(tables(torch.cat(rows).to(DEVICE), position.to(DEVICE), (40,) * 3, listed=False, lies=True), rows, position)


def check(found, rows, position):
    band, least, lows, highs, afters, befores, codes = found
    distance = (torch.arange(len(band)) - times.BEFORE).clamp(0, len(position) - 1)
    assert torch.equal(band, position[distance])
    for bucket in range(1, time_buckets.COUNT):
        second = int(least[bucket])
        assert time_buckets.bucket(second) >= bucket > time_buckets.bucket(second - 1), bucket
    begin = 0
    for number, row in enumerate(rows):
        ends = []
        for first in range(0, len(row), BLOCK):
            block = row[first : first + BLOCK]
            own = slice(begin + first, begin + first + len(block))
            low, high = int(block.min()), int(block.max())
            assert (lows[begin + first], highs[begin + first]) == (low, high)
            assert torch.equal(afters[own], (block - low).clamp(max=FAR).int())
            assert torch.equal(befores[own], (high - block).clamp(max=FAR).int())
            ends.append((low, high))
            for key, (key_low, key_high) in enumerate(ends):
                bucket = time_buckets.bucket(low - key_high)
                more = time_buckets.bucket(high - key_low) - bucket
                assert int(codes[number, first // BLOCK, key]) == bucket | more << 16
        begin += len(row)
