"""The gradient of time that the tiles at the diagonal add on Hopper, against loops; in Triton's interpreter or on a
GPU. What the backward pass has not visited is NaN here."""

import pytest
import time_buckets
import torch
from gr_ops.cuda.hopper import near_sums, times
from test_hopper_times import BLOCK, DEVICE, tables

HEADS, COPIES, SCALE = 3, 2, 0.25
KEYS = 2 * BLOCK  # of a program of the backward pass


@pytest.mark.parametrize("targets", [(0, 0, 0, 0), (1, 0, 0, 100)], ids=["causal", "targets"])
def test_sums(targets):
    # The last row: its second program's keys are seen by no query behind them, and are not its last ones.
    lengths, group = (70, 0, 1, 110), 6
    total, longest = sum(lengths), max(lengths)
    rows = [10**9 + (torch.rand(n) * 600).long().cumsum(0) for n in lengths]
    seconds = torch.cat(rows).to(DEVICE)
    _, _, codes = tables(seconds, torch.randn(115).to(DEVICE), lengths, of_queries=False)
    near = torch.full((HEADS, total, times.DIAGONALS, BLOCK), torch.nan)
    right = torch.zeros(time_buckets.COUNT, dtype=torch.float64)
    begin = 0
    for row, n, count in zip(rows, lengths, targets):
        history = n - count
        for key in range(n):
            last = min(key // KEYS * KEYS + KEYS, n) - 1  # of the program's keys
            stop = n if key // KEYS * KEYS < history else min(history + ((last - history) // group + 1) * group, n)
            for diagonal in range(times.DIAGONALS):
                first = key // BLOCK * BLOCK + diagonal * BLOCK
                if first >= stop:
                    continue
                values = torch.zeros(HEADS, BLOCK)
                for query in range(max(first, key), min(first + BLOCK, n)):
                    values[:, query - first] = torch.randn(HEADS)
                    bucket = time_buckets.bucket(int(row[query] - row[key]))
                    right[bucket] += values[:, query - first].double().sum() * SCALE
                near[:, begin + key, diagonal] = values
        begin += n
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], device=DEVICE)
    counts = [torch.tensor(x, device=DEVICE) for x in ((0, 0, 0, 0), targets)]
    out = torch.zeros(COPIES, time_buckets.COUNT, device=DEVICE)
    blocks, cells = -(-longest // BLOCK), time_buckets.cells(torch.device(DEVICE))
    numbers = (total, longest, blocks, group, SCALE, *out.shape)
    constants = (True, HEADS, any(targets), BLOCK, times.DIAGONALS, KEYS, times.FIRST, times.AROUND, 8)
    arguments = (near.to(DEVICE), out, seconds, cells, codes.to(DEVICE), offsets, *counts, *numbers, *constants)
    near_sums.add_near[(len(lengths) * blocks, times.DIAGONALS)](*arguments)
    torch.testing.assert_close(out.sum(0).cpu().double(), right, rtol=1e-5, atol=1e-5)
