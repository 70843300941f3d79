"""Buckets of time for the relative bias, which leaves them to its caller: each 1.35 times as wide as the one before."""

import bisect

import torch
from gr_ops.cuda import relative_bias

COUNT = 40
STARTS = [0, *range(2, 5), *(int(5 * 1.35**n) for n in range(COUNT - 4))]  # seconds


def bucket(seconds: int) -> int:
    """A time that goes backward is none."""
    return bisect.bisect_right(STARTS, max(seconds, 0)) - 1


def cells(device: torch.device) -> torch.Tensor:
    starts = [bucket(int(second)) for second in relative_bias.cell_starts().tolist()]
    return relative_bias.cells_of(torch.tensor(starts), torch.tensor(STARTS)).to(device)
