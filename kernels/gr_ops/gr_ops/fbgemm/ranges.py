"""Ranges and permutations of indices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.registry import composite


@composite("expand_into_jagged_permute")
def expand_into_jagged_permute(
    permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int
) -> Tensor:
    """[output_size]: the rows of the segments `permute` [T], one after the other."""
    op = "expand_into_jagged_permute"
    checks.index_vector(op, permute=permute, input_offset=input_offset, output_offset=output_offset)
    features = permute.numel()
    for name, offsets in (("input_offset", input_offset), ("output_offset", output_offset)):
        checks.rows(op, name, offsets, features + 1, "permute and one more")
    starts = checks.pick(input_offset[:-1], permute)
    segment = checks.segment_of(output_offset, output_size)
    shift = starts - output_offset[:-1]
    return (checks.pick(shift, segment) + checks.counting(output_size, shift)).to(permute.dtype)


@composite("invert_permute")
def invert_permute(permute: Tensor) -> Tensor:
    """[n]: where each index stands in `permute` [n]."""
    checks.index_vector("invert_permute", permute=permute)
    return inverse(permute)


def inverse(permute: Tensor) -> Tensor:
    if permute.numel() == 0:
        return torch.empty_like(permute)
    places = permute.long().clamp(0, permute.numel() - 1)
    return torch.zeros_like(permute).scatter(0, places, checks.counting(permute.numel(), permute))


@composite("offsets_range")
def offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    """[range_size]: positions within segments that begin at `offsets` [n]."""
    checks.index_vector("offsets_range", offsets=offsets)
    if offsets.numel() == 0:
        return offsets.new_zeros(range_size)
    positions = checks.counting(range_size, offsets)
    segment = (torch.searchsorted(offsets.contiguous(), positions, right=True) - 1).clamp(min=0)
    return positions - offsets.index_select(0, segment)


@composite("lengths_range")
def lengths_range(t_in: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """0, 1, ... of each length, one after the other; without `shape` the host waits for their sum."""
    checks.index_vector("lengths_range", t_in=t_in)
    offsets = checks.complete_offsets(t_in)
    total = int(offsets[-1]) if shape is None else torch.Size(shape).numel()
    segment = checks.segment_of(offsets, total)
    result = checks.counting(total, t_in) - checks.pick(offsets[:-1], segment)
    return result if shape is None else result.view(*shape)
