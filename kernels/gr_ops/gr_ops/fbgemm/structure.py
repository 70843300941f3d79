"""Other forms of operators that are Ascend C operators: the same calls with their arguments arranged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.registry import composite

Permuted = tuple[Tensor, Tensor, Tensor | None]


@composite("permute_sparse_data", differentiable=True)
def permute_sparse_data(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    result: Permuted = torch.ops.mxrec.permute_2D_sparse_data(permute, lengths, values, weights, permuted_lengths_sum)
    return result


@composite("permute_sparse_features", differentiable=True)
def permute_sparse_features(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> Permuted:
    return permute_sparse_data(permute, lengths, indices, weights)


@composite("permute_2D_sparse_data_input1D", differentiable=True)
def permute_2D_sparse_data_input1D(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    stride: int,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Permuted:
    """permute_2D_sparse_data with the lengths of all features in one row, `stride` of each."""
    op = "permute_2D_sparse_data_input1D"
    checks.rank(op, "lengths", lengths, 1, "[T * stride]")
    checks.require(
        stride > 0 and lengths.numel() % stride == 0,
        f"{op}: stride must divide the number of lengths ({lengths.numel()}), got {stride}",
    )
    moved, *rest = permute_sparse_data(permute, lengths.view(-1, stride), values, weights, permuted_lengths_sum)
    return moved.view(-1), *rest


@composite("jagged_1d_to_dense", differentiable=True)
def jagged_1d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int, padding_value: int) -> Tensor:
    checks.rank("jagged_1d_to_dense", "values", values, 1, "[L]")
    result: Tensor = torch.ops.mxrec.jagged_to_padded_dense(values, [offsets], [max_sequence_length], padding_value)
    return result


@composite("jagged_2d_to_dense", differentiable=True)
def jagged_2d_to_dense(values: Tensor, offsets: Tensor, max_sequence_length: int) -> Tensor:
    checks.rank("jagged_2d_to_dense", "values", values, 2, "[L, D]")
    result: Tensor = torch.ops.mxrec.jagged_to_padded_dense(values, [offsets], [max_sequence_length])
    return result


@composite("stacked_jagged_1d_to_dense", "stacked_jagged_2d_to_dense", differentiable=True)
def stacked_jagged_to_dense(
    values: Tensor,
    lengths: Tensor,
    offset_per_key: Sequence[int],
    max_lengths_per_key: Sequence[int],
    padding_value: int = 0,
) -> list[Tensor]:
    """A padded tensor for each key: its values are [offset_per_key[k], offset_per_key[k + 1]), lengths [K, B]."""
    op = "stacked_jagged_to_dense"
    checks.rank(op, "lengths", lengths, 2, "[K, B]")
    keys = lengths.size(0)
    checks.require(
        len(offset_per_key) == keys + 1 and len(max_lengths_per_key) == keys,
        f"{op}: expected {keys + 1} entries of offset_per_key and {keys} of max_lengths_per_key, got "
        f"{len(offset_per_key)} and {len(max_lengths_per_key)}",
    )
    offsets = checks.complete_offsets(lengths)
    return [
        torch.ops.mxrec.jagged_to_padded_dense(
            values[offset_per_key[k] : offset_per_key[k + 1]], [offsets[k]], [max_lengths_per_key[k]], padding_value
        )
        for k in range(keys)
    ]


@composite("pack_segments", differentiable=True)
def pack_segments(t_in: Tensor, lengths: Tensor, max_length: int) -> Tensor:
    """[L, ...] -> [B, max_length, ...]: the first rows of each segment, zeros behind them."""
    return _packed(t_in, lengths, max_length, 0.0)


@composite("pack_segments_v2", differentiable=True)
def pack_segments_v2(
    t_in: Tensor, lengths: Tensor, max_length: int, pad_minf: bool = False, return_presence_mask: bool = False
) -> tuple[Tensor, Tensor | None]:
    dense = _packed(t_in, lengths, max_length, float("-inf") if pad_minf else 0.0)
    if not return_presence_mask:
        return dense, None
    return dense, torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)


def _packed(t_in: Tensor, lengths: Tensor, max_length: int, padding: float) -> Tensor:
    checks.index_vector("pack_segments", lengths=lengths)
    offsets = checks.complete_offsets(lengths)
    result: Tensor = torch.ops.mxrec.jagged_to_padded_dense(t_in, [offsets], [max_length], padding)
    return result


@composite("pack_segments_backward")
def pack_segments_backward(data: Tensor, lengths: Tensor, total_length: int, max_length: int) -> Tensor:
    checks.index_vector("pack_segments_backward", lengths=lengths)
    offsets = checks.complete_offsets(lengths)
    result: Tensor = torch.ops.mxrec.jagged_to_padded_dense_backward(data, [offsets], total_length)
    return result
