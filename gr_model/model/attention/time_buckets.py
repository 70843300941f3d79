"""Logarithmic buckets of the time between two tokens."""

from __future__ import annotations

from functools import cache

import torch

from gr_model.config import ModelConfig
from gr_model.runtime.transfer import to_device


def time_bucket(seconds: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """Logarithmic buckets, 0.301 apart as in the public HSTU code; a negative difference counts as none."""
    bucket = seconds.float().clamp_(min=1).log_().div_(0.301)
    return bucket.clamp_(max=config.time_buckets - 1).to(torch.int32)


@cache
def thresholds(count: int) -> torch.Tensor:
    """[count] int64: the least number of seconds of each of `time_bucket`'s buckets, found by halving."""
    largest = torch.iinfo(torch.int64).max
    low, high = torch.zeros(count, dtype=torch.int64), torch.full((count,), largest)
    config = ModelConfig(time_buckets=count)
    while bool((low < high).any()):
        middle = low + (high - low) // 2
        enough = time_bucket(middle, config) >= torch.arange(count)
        low, high = torch.where(enough, low, (middle + 1).clamp(max=high)), torch.where(enough, middle, high)
    low[0] = torch.iinfo(torch.int64).min
    return low


@cache
def time_cells(count: int, device: torch.device) -> torch.Tensor:
    """The same for the operators that make the bias themselves, as a table of cells (gr_ops.time_cells)."""
    from gr_ops.time_cells import cell_starts, cells_of

    starts = time_bucket(cell_starts().double(), ModelConfig(time_buckets=count))
    return to_device(cells_of(starts, thresholds(count)).numpy(), device)
