"""The table that hstu_relative finds time buckets by: exact to the last second, without a logarithm.

A float32 whose lowest 20 bits are cut off is one of 512 cells, none wider than a bucket. So a cell's entry is the
bucket at its start and the second from which on it is the next one.
"""

from __future__ import annotations

import torch

CELLS = 512  # from 2^0 to 2^64 seconds, eight to an octave
FIRST = 1016  # the upper 12 bits of 1.0


def cells_of(buckets: torch.Tensor, least_T: torch.Tensor) -> torch.Tensor:
    """[512] int64, from the bucket at each cell's start and the least number of seconds of each bucket.

    The lower half of an entry is the bucket, the upper half a float32: from there on it is the next bucket.
    """
    edges = torch.full((CELLS,), float("inf"))
    seconds_T = least_T[1:][least_T[1:] < torch.iinfo(torch.int64).max].float()
    cell_T = (seconds_T.view(torch.int32) >> 20) - FIRST
    inside = seconds_T > cell_starts()[cell_T]  # others begin with a cell
    edges[cell_T[inside]] = seconds_T[inside]
    return (edges.view(torch.int32).long() << 32) + buckets.long()


def cell_starts() -> torch.Tensor:
    """[512] float32: the seconds at which each cell starts."""
    return ((torch.arange(CELLS, dtype=torch.int32) + FIRST) << 20).view(torch.float32)
