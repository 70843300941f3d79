"""Rows picked out of jagged and of dense tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.registry import composite


def _starts(ends: Tensor, of: Tensor) -> Tensor:
    """Where the segments `of` begin, given where all end."""
    return checks.pick(torch.cat([ends.new_zeros(1), ends]), of)


def _selected_rows(op: str, indices: Tensor, ends: Tensor, selected_ends: Tensor, total: int, within: int) -> Tensor:
    checks.index_vector(op, indices=indices, offsets=ends, selected_offsets=selected_ends)
    checks.rows(op, "the offsets of the selected rows", selected_ends, indices.numel(), "indices")
    selected = torch.cat([selected_ends.new_zeros(1), selected_ends])
    return checks.gather_segments(_starts(ends, indices), selected, total, within)


@composite("jagged_index_select_2d_forward", differentiable=True)
def jagged_index_select_2d_forward(
    values: Tensor, indices: Tensor, input_offsets: Tensor, output_offsets: Tensor, num_dense_output_rows: int
) -> Tensor:
    """[L, D] -> [num_dense_output_rows, D]: the rows of bags `indices`. Offsets say where each bag ends."""
    op = "jagged_index_select_2d_forward"
    checks.rank(op, "values", values, 2, "[L, D]")
    source = _selected_rows(op, indices, input_offsets, output_offsets, num_dense_output_rows, values.size(0))
    return checks.pick(values, source)


@composite("jagged_index_add_2d_forward", differentiable=True)
def jagged_index_add_2d_forward(
    values: Tensor,
    indices: Tensor,
    input_offsets: Tensor,
    output_offsets: Tensor,
    num_dense_input_rows: int,
    num_output_rows: int,
) -> Tensor:
    """Its gradient: each row of `values` added to the row that it was selected from."""
    op = "jagged_index_add_2d_forward"
    checks.rank(op, "values", values, 2, "[L, D]")
    target = _selected_rows(op, indices, output_offsets, input_offsets, num_dense_input_rows, num_output_rows)
    checks.rows(op, "values", values, num_dense_input_rows, "num_dense_input_rows says")
    return values.new_zeros(num_output_rows, values.size(1)).index_add(0, target, values)


@composite("keyed_jagged_index_select_dim1", differentiable=True)
def keyed_jagged_index_select_dim1(
    values: Tensor,
    lengths: Tensor,
    offsets: Tensor,
    indices: Tensor,
    batch_size: int,
    weights: Tensor | None = None,
    selected_lengths_sum: int | None = None,
) -> list[Tensor]:
    """Bags `indices` [N] of every feature: values, lengths [T * N] and, if given, weights.

    lengths: [T * batch_size], offsets: [T * batch_size + 1]. Without selected_lengths_sum the host waits for the sum.
    """
    op = "keyed_jagged_index_select_dim1"
    checks.index_vector(op, lengths=lengths, offsets=offsets, indices=indices)
    checks.rows(op, "offsets", offsets, lengths.numel() + 1, "lengths and one more")
    checks.require(
        batch_size > 0 and lengths.numel() % batch_size == 0,
        f"{op}: batch_size must divide the number of lengths ({lengths.numel()}), got {batch_size}",
    )
    if weights is not None:
        checks.rows(op, "weights", weights, values.size(0), "values")
    features = torch.arange(0, lengths.numel(), batch_size, device=lengths.device)
    bags = (features.unsqueeze(1) + indices.long().clamp(0, batch_size - 1)).flatten()
    selected = lengths.index_select(0, bags)
    ends = checks.complete_offsets(selected.long())
    total = int(ends[-1]) if selected_lengths_sum is None else selected_lengths_sum
    source = checks.gather_segments(checks.pick(offsets, bags), ends, total, values.size(0))
    picked = [checks.pick(values, source), selected]
    return picked if weights is None else [*picked, checks.pick(weights, source)]


@composite("jagged_unique_indices")
def jagged_unique_indices(
    hash_size_cumsum: Tensor, hash_size_offsets: Tensor, offsets: Tensor, indices: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The ids of each table once, in ascending order: lengths [T * B], offsets, ids [U], and of each id its place [L].

    Ids of feature t are rows hash_size_cumsum[t] on of all tables together [T + 1]; the features of the table that
    begins with feature t are [hash_size_offsets[t], hash_size_offsets[t + 1]). A table's ids are spread evenly over the
    bags of its features. The host waits for U.
    """
    op = "jagged_unique_indices"
    checks.index_vector(
        op, indices=indices, hash_size_cumsum=hash_size_cumsum, hash_size_offsets=hash_size_offsets, offsets=offsets
    )
    features = hash_size_cumsum.numel() - 1
    checks.rows(op, "hash_size_offsets", hash_size_offsets, features + 1, "hash_size_cumsum")
    bags = offsets.numel() - 1
    checks.require(
        features > 0 and bags % features == 0,
        f"{op}: offsets must have as many bags for each of {features} features, got {bags}",
    )
    batch = bags // features
    feature = torch.div(checks.segment_of(offsets, indices.numel()), max(batch, 1), rounding_mode="floor")
    rows, places = torch.unique(indices + checks.pick(hash_size_cumsum[:-1], feature), return_inverse=True)
    feature_of_row = checks.segment_of_values(hash_size_cumsum, rows)
    ids = (rows - checks.pick(hash_size_cumsum, feature_of_row)).to(indices.dtype)

    each = torch.arange(features, device=offsets.device)
    table = checks.segment_of_values(hash_size_offsets, each)
    starts = hash_size_offsets[:-1].long()
    sizes = hash_size_offsets.long().diff()
    counts = torch.zeros(features, dtype=torch.int64, device=offsets.device)
    counts = counts.index_add(0, checks.pick(table, feature_of_row), torch.ones_like(feature_of_row))
    count, slots = counts.index_select(0, table), (sizes.index_select(0, table) * batch).clamp(min=1)
    slot = (each - starts.index_select(0, table)).unsqueeze(1) * batch + torch.arange(batch, device=offsets.device)
    even = torch.div(count, slots, rounding_mode="floor")
    lengths = (even.unsqueeze(1) + (slot < (count - even * slots).unsqueeze(1)).long()).flatten().to(offsets.dtype)
    return lengths, checks.complete_offsets(lengths), ids, places.to(indices.dtype)


@composite("batch_index_select_dim0", differentiable=True)
def batch_index_select_dim0(
    inputs: Tensor,
    indices: Tensor,
    input_num_indices: Sequence[int],
    input_rows: Sequence[int],
    input_columns: Sequence[int],
    permute_output_dim_0_1: bool = False,
) -> Tensor:
    """Rows of matrices that stand one behind the other in `inputs`; flat, matrix by matrix or (permuted) row by row."""
    op = "batch_index_select_dim0"
    sizes = [rows * columns for rows, columns in zip(input_rows, input_columns)]
    checks.require(
        len(input_num_indices) == len(input_rows) == len(input_columns),
        f"{op}: input_num_indices, input_rows and input_columns must have one entry a matrix",
    )
    checks.rows(op, "inputs", inputs, sum(sizes), "input_rows and input_columns say")
    checks.rows(op, "indices", indices, sum(input_num_indices), "input_num_indices says")
    picked = [
        checks.pick(part.view(rows, columns), index)
        for part, rows, columns, index in zip(
            inputs.split(sizes), input_rows, input_columns, indices.split(list(input_num_indices))
        )
    ]
    if not permute_output_dim_0_1:
        return torch.cat([part.flatten() for part in picked]) if picked else inputs.new_empty(0)
    checks.require(
        len(set(input_num_indices)) <= 1,
        f"{op}: with permute_output_dim_0_1 every matrix needs as many indices, got {list(input_num_indices)}",
    )
    return torch.cat(picked, dim=1).flatten() if picked else inputs.new_empty(0)


@composite("group_index_select_dim0", differentiable=True)
def group_index_select_dim0(input_group: Sequence[Tensor], indices_group: Sequence[Tensor]) -> list[Tensor]:
    checks.require(
        len(input_group) == len(indices_group),
        f"group_index_select_dim0: expected as many inputs as indices, got {len(input_group)} and {len(indices_group)}",
    )
    return [checks.pick(tensor, index) for tensor, index in zip(input_group, indices_group)]


@composite("index_select_dim0", differentiable=True)
def index_select_dim0(
    input: Tensor,
    indices: Tensor,
    consecutive_range_start: int | None = 0,
    consecutive_range_length: int | None = 0,
    skip_indices_sorting_fwd: bool | None = None,
) -> Tensor:
    checks.index_vector("index_select_dim0", indices=indices)
    return checks.pick(input, indices)


@composite("masked_select_jagged_1d")
def masked_select_jagged_1d(values: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The values of a jagged vector that a mask keeps, and how many each bag has then; the host waits for the sum."""
    op = "masked_select_jagged_1d"
    checks.index_vector(op, lengths=lengths)
    checks.rank(op, "values", values, 1, "[L]")
    checks.rows(op, "mask", mask, values.numel(), "values")
    bag = checks.segment_of(checks.complete_offsets(lengths), values.numel())
    return values.masked_select(mask), torch.zeros_like(lengths).index_add(0, bag, mask.to(lengths.dtype))


@composite("jagged_1d_to_truncated_values")
def jagged_1d_to_truncated_values(values: Tensor, lengths: Tensor, max_truncated_length: int) -> Tensor:
    """The first values of each bag of a jagged vector; the host waits for their number."""
    checks.index_vector("jagged_1d_to_truncated_values", lengths=lengths)
    offsets = checks.complete_offsets(lengths)
    bag = checks.segment_of(offsets, values.numel())
    position = checks.counting(values.numel(), offsets) - checks.pick(offsets, bag)
    return values.masked_select(position < max_truncated_length)
