"""Columns of pooled embeddings [B, D] in another order, and embeddings of several devices brought together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.registry import composite

Names = Sequence[Sequence[str]]
Sizes = Sequence[Sequence[int]]


@composite(
    "permute_pooled_embs",
    "permute_pooled_embs_split",
    "permute_pooled_embs_auto_grad",
    "permute_pooled_embs_auto_grad_split",
    differentiable=True,
)
def permute_pooled_embs(
    pooled_embs: Tensor,
    offset_dim_list: Tensor,
    permute_list: Tensor,
    inv_offset_dim_list: Tensor,
    inv_permute_list: Tensor,
) -> Tensor:
    """[B, D] -> [B, D]: the columns of feature permute_list[0], then of permute_list[1], ..."""
    checks.rank("permute_pooled_embs", "pooled_embs", pooled_embs, 2, "[B, D]")
    offsets, permute = _lists("permute_pooled_embs", pooled_embs, offset_dim_list, permute_list)
    checks.rows("permute_pooled_embs", "permute_list", permute, offsets.numel() - 1, "offset_dim_list and one less")
    return _permuted_columns(pooled_embs, offsets, permute, pooled_embs.size(1))


@composite(
    "permute_duplicate_pooled_embs",
    "permute_duplicate_pooled_embs_split",
    "permute_duplicate_pooled_embs_auto_grad",
    "permute_duplicate_pooled_embs_auto_grad_split",
    differentiable=True,
)
def permute_duplicate_pooled_embs(
    pooled_embs: Tensor,
    offset_dim_list: Tensor,
    permute_list: Tensor,
    inv_offset_dim_list: Tensor,
    inv_permute_list: Tensor,
) -> Tensor:
    """[B, D] -> [B, E]: the same with features left out or repeated; the host waits for E, where the result's end."""
    op = "permute_duplicate_pooled_embs"
    checks.rank(op, "pooled_embs", pooled_embs, 2, "[B, D]")
    offsets, permute = _lists(op, pooled_embs, offset_dim_list, permute_list)
    ends, _ = _lists(op, pooled_embs, inv_offset_dim_list, permute_list)
    return _permuted_columns(pooled_embs, offsets, permute, int(ends[-1]) if ends.numel() else 0)


def _lists(op: str, pooled: Tensor, offsets: Tensor, permute: Tensor) -> tuple[Tensor, Tensor]:
    checks.index_vector(op, offset_dim_list=offsets)
    checks.index_vector(op, permute_list=permute)
    checks.require(offsets.numel() > 0, f"{op}: offset_dim_list must have at least one entry, got none")
    return offsets.to(pooled.device).long(), permute.to(pooled.device).long()


def _permuted_columns(pooled: Tensor, offsets: Tensor, permute: Tensor, columns: int) -> Tensor:
    results = checks.complete_offsets(checks.pick(offsets.diff(), permute))
    source = checks.gather_segments(checks.pick(offsets[:-1], permute), results, columns, pooled.size(1))
    return checks.pick(pooled, source, dim=1)


@composite("kt_regroup_arguments")
def kt_regroup_arguments(
    embs: Tensor, keys: Names, lengths: Sizes, groups: Names
) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """The permutation that regroups: made on the host from the names, which are there, and sent to the device."""
    on_host = torch.ops.fbgemm.kt_regroup_arguments(torch.empty(0), keys, lengths, groups)
    permutes, in_shapes, out_shapes = (tensor.to(embs.device, non_blocking=True) for tensor in on_host[:3])
    return permutes, in_shapes, out_shapes, on_host[3]


@composite("permute_multi_embedding", differentiable=True)
def permute_multi_embedding(
    pooled_embs: Sequence[Tensor], permutes: Tensor, in_shapes: Tensor, out_shapes: Tensor, out_lengths: Sequence[int]
) -> list[Tensor]:
    """[B, in_shapes[i]] -> [B, out_lengths[o]]: permutes [P, 6] says which columns of which input go where."""
    return _multi(pooled_embs, permutes, out_lengths)


@composite("permute_multi_embedding_function")
def permute_multi_embedding_function(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    """The same, or its gradient (`reverse`): of the results' gradients those of the inputs, copies added up."""
    if not reverse:
        return _multi(pooled_embs, permutes, out_lengths)
    whole = torch.cat([*pooled_embs], dim=1)
    source = _source_columns(permutes, out_lengths, [grad.size(1) for grad in pooled_embs])
    sums = whole.new_zeros(whole.size(0), sum(out_lengths)).index_add(1, source, whole)
    return list(sums.split(list(out_lengths), dim=1))


def _multi(pooled_embs: Sequence[Tensor], permutes: Tensor, out_lengths: Sequence[int]) -> list[Tensor]:
    op = "permute_multi_embedding"
    checks.require(len(pooled_embs) > 0, f"{op}: pooled_embs is empty")
    for number, pooled in enumerate(pooled_embs):
        checks.rank(op, f"pooled_embs[{number}]", pooled, 2, "[B, D]")
    checks.rank(op, "permutes", permutes, 2, "[P, 6]")
    source = _source_columns(permutes, [pooled.size(1) for pooled in pooled_embs], out_lengths)
    whole = checks.pick(torch.cat([*pooled_embs], dim=1), source, dim=1)
    return list(whole.split(list(out_lengths), dim=1))


def _source_columns(permutes: Tensor, ins: Sequence[int], outs: Sequence[int]) -> Tensor:
    """[sum(outs)]: for each column of the results side by side the column of the inputs side by side."""

    def first_columns(widths: Sequence[int], which: Tensor) -> Tensor:
        return checks.pick(torch.tensor([0, *accumulate(widths)], device=permutes.device), which)

    _in, _out, in_offset, out_offset, _length, _next = permutes.long().unbind(1)
    target = first_columns(outs, _out) + out_offset
    target, order = torch.sort(target)
    starts = (first_columns(ins, _in) + in_offset).index_select(0, order)
    ends = torch.cat([target, target.new_full((1,), sum(outs))])
    return checks.gather_segments(starts, ends, sum(outs), sum(ins))


@composite("regroup_keyed_tensor", differentiable=True)
def regroup_keyed_tensor(pooled_embs: Sequence[Tensor], keys: Names, lengths: Sizes, groups: Names) -> list[Tensor]:
    """The columns of each key of a group side by side, one tensor a group."""
    columns: dict[str, Tensor] = {}
    for pooled, names, widths in zip(pooled_embs, keys, lengths):
        columns |= dict(zip(names, pooled.split(list(widths), dim=1)))
    for group in groups:
        missing = [key for key in group if key not in columns]
        checks.require(not missing, f"regroup_keyed_tensor: groups names {missing}; expected some of {list(columns)}")
    return [torch.cat([columns[key] for key in group], dim=1) for group in groups]


@composite("all_to_one_device", differentiable=True)
def all_to_one_device(input_tensors: Sequence[Tensor], target_device: torch.device) -> list[Tensor]:
    return [tensor.to(target_device) for tensor in input_tensors]


@composite("merge_pooled_embeddings", differentiable=True)
def merge_pooled_embeddings(
    pooled_embeddings: Sequence[Tensor], uncat_dim_size: int, target_device: torch.device, cat_dim: int = 1
) -> Tensor:
    return torch.cat([tensor.to(target_device) for tensor in pooled_embeddings], dim=cat_dim)


@composite("sum_reduce_to_one", differentiable=True)
def sum_reduce_to_one(input_tensors: Sequence[Tensor], target_device: torch.device) -> Tensor:
    checks.require(len(input_tensors) > 0, "sum_reduce_to_one: input_tensors is empty")
    total, *others = (tensor.to(target_device) for tensor in input_tensors)
    for tensor in others:
        total = total + tensor
    return total
