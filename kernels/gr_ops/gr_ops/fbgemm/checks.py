"""What composites check of their arguments, and what they share."""

from __future__ import annotations

import torch
from torch import Tensor

INDICES = (torch.int32, torch.int64)


def require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def index_vector(op: str, **tensors: Tensor | None) -> None:
    """Each is 1-D, int32 or int64, and on the device of the first."""
    first = next(tensor for tensor in tensors.values() if tensor is not None)
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        require(tensor.dim() == 1, f"{op}: {name} must be 1-D, got shape {tuple(tensor.shape)}")
        require(
            tensor.dtype in INDICES,
            f"{op}: {name} has an unsupported dtype; expected int32 or int64, got {tensor.dtype}",
        )
        same_device(op, name, tensor, first)


def same_device(op: str, name: str, tensor: Tensor, like: Tensor) -> None:
    require(tensor.device == like.device, f"{op}: expected {name} on {like.device}, got {tensor.device}")


def rank(op: str, name: str, tensor: Tensor, dimensions: int, expected: str) -> None:
    require(
        tensor.dim() == dimensions,
        f"{op}: {name} must have {dimensions} dimensions; expected {expected}, got shape {tuple(tensor.shape)}",
    )


def rows(op: str, name: str, tensor: Tensor, expected: int, of: str) -> None:
    require(
        tensor.dim() > 0 and tensor.size(0) == expected,
        f"{op}: {name} must have {expected} rows, as {of}; got shape {tuple(tensor.shape)}",
    )


def complete_offsets(lengths: Tensor) -> Tensor:
    """[n] -> [n + 1]: 0 and the running sums."""
    result: Tensor = torch.ops.mxrec.asynchronous_complete_cumsum(lengths)
    return result


def counting(total: int, like: Tensor) -> Tensor:
    return torch.arange(total, dtype=like.dtype, device=like.device)


def segment_of(offsets: Tensor, total: int) -> Tensor:
    """[total] int64: the segment of [n + 1] offsets that each position lies in, the last one for what lies behind."""
    if offsets.numel() < 2:
        return torch.zeros(total, dtype=torch.int64, device=offsets.device)
    ends = offsets[1:].contiguous()
    return torch.searchsorted(ends, counting(total, offsets), right=True).clamp(max=ends.numel() - 1)


def pick(values: Tensor, index: Tensor, dim: int = 0) -> Tensor:
    """index_select with indices outside taken for the nearest one inside; zeros where there is nothing to take."""
    size = values.size(dim)
    if size == 0:
        behind = [0, 0] * (values.dim() - 1 - dim)
        return torch.nn.functional.pad(values, [*behind, 0, index.numel()])  # a gradient goes through
    return values.index_select(dim, index.clamp(0, size - 1))


def gather_segments(starts: Tensor, output_offsets: Tensor, total: int, within: int) -> Tensor:
    """[total] int64: for each position of the result its source row, of segments that begin at `starts` and stand one
    after the other by `output_offsets` [n + 1]; kept inside [0, within)."""
    segment = segment_of(output_offsets, total)
    shift = starts.long() - output_offsets[:-1].long()
    return (counting(total, segment) + pick(shift, segment)).clamp(0, max(within - 1, 0))


def segment_of_values(offsets: Tensor, values: Tensor) -> Tensor:
    """The segment of [n + 1] offsets that each value lies in."""
    segments = max(offsets.numel() - 1, 1)
    return torch.searchsorted(offsets[1:].contiguous(), values.to(offsets.dtype), right=True).clamp(max=segments - 1)
