"""The relative bias inside the kernels of attention: position[distance] + time[bucket] of one cell, and its gradient.

Nothing of the size of the square is kept: a cell's time bucket follows from the two timestamps where it is needed, and
in the backward pass again. The bucket is the caller's to the last second: a float32 whose lowest 20 bits
are cut off is one of 512 cells, none wider than a bucket, so a table of them holds the bucket at a cell's start and the
second from which on it is the next one. That costs no logarithm.

The gradient of the tables is a kernel of its own (bias_gradients.py).
Shape suffixes as in the package; P distances, T time buckets, W blocks of a diagonal, B sequences, S padded length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from gr_ops.time_cells import cell_starts, cells_of

__all__ = ["cell_starts", "cells_of"]

SPLIT = 24  # bits: a time is high * 2^24 + low, both exact in float32


@triton.jit
def time_bucket(query_high, query_low, key_high, key_low, cells):
    """Exact up to 2^48 seconds: both differences are, and their sum is rounded as the conversion of an integer is."""
    seconds = (query_high - key_high) * 16777216.0 + (query_low - key_low)
    seconds = tl.maximum(seconds, 1.0)
    cell = tl.load(cells + ((seconds.to(tl.int32, bitcast=True) >> 20) - 1016))
    edge = (cell >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return (cell & 65535).to(tl.int32) + (seconds >= edge).to(tl.int32)


def split_times(times_L: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two parts, float32. Differences count alone, so the first of all times is 0."""
    since_L = times_L - times_L.min() if len(times_L) else times_L
    return (since_L >> SPLIT).float(), (since_L & ((1 << SPLIT) - 1)).float()


def position_gradient(parts_BWKK: torch.Tensor, distances: int) -> torch.Tensor:
    """[P]: the sums along the diagonals of blocks; those of block w hold distances around w * K."""
    windows, block = parts_BWKK.shape[1:3]
    mirrored_WKK = parts_BWKK.sum(0).flip(2)
    # A row moves by one against the row before it, so that columns are diagonals: distance w * K + column - (K - 1).
    skewed_W = F.pad(mirrored_WKK, (0, block)).flatten(1)[:, : block * (2 * block - 1)]
    sums_WC = skewed_W.view(windows, block, 2 * block - 1).sum(1)
    out_WK = sums_WC[:, block - 1 :].clone()
    out_WK[:-1, 1:] += sums_WC[1:, : block - 1]
    out_P = out_WK.flatten()[:distances]
    return F.pad(out_P, (0, distances - len(out_P)))


def gradient_before_targets(of_key_BS: torch.Tensor, history_B: torch.Tensor, distances: int) -> torch.Tensor:
    """[P], from what all targets of a sequence add for each key before them: its distance is that to the first one."""
    distance_P = torch.arange(distances, device=of_key_BS.device)
    key_BP = history_B[:, None] - distance_P
    there_BP = (key_BP >= 0) & (distance_P > 0)
    of_distance_BP = of_key_BS.gather(1, key_BP.clamp(0, of_key_BS.shape[1] - 1))
    return torch.where(there_BP, of_distance_BP, 0).sum(0)
