"""Ids of sparse features divided among ranks, each bucket's ids in the order of the bags they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from gr_ops.fbgemm import checks
from gr_ops.fbgemm.ranges import inverse
from gr_ops.fbgemm.registry import composite

Optional: TypeAlias = Tensor | None


@dataclass(frozen=True)
class Bags:
    """L ids in R bags: `row` [L], of each id its bag."""

    offsets: Tensor
    row: Tensor
    rows: int

    @classmethod
    def of(cls, lengths: Tensor, ids: int) -> Bags:
        offsets = checks.complete_offsets(lengths)
        return cls(offsets, checks.segment_of(offsets, ids), lengths.numel())


@dataclass(frozen=True)
class Buckets:
    """`order` [L]: the ids by bucket, then by bag; `lengths` [buckets * R]."""

    order: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, bucket: Tensor, bags: Bags, count: int, like: Tensor) -> Buckets:
        # Bags are in order already, so a stable sort by bucket suffices; cores sort float32, not integers.
        order = torch.sort(bucket.float(), stable=True)[1]
        place = bucket.index_select(0, order) * bags.rows + bags.row.index_select(0, order)
        bounds = torch.searchsorted(place, torch.arange(count * bags.rows + 1, device=place.device))
        return cls(order, bounds.diff().to(like.dtype))

    def moved(self, values: Optional) -> Optional:
        return None if values is None else values.index_select(0, self.order)

    def places(self, like: Tensor) -> Tensor:
        return inverse(self.order).to(like.dtype)


def unsigned_divide(ids: Tensor, divisor: int | Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of int64 ids as unsigned numbers, as fbgemm_gpu has them: hashed ids may be negative."""
    half = torch.div(ids, 2, rounding_mode="floor")
    bit = ids - 2 * half
    half = torch.where(ids < 0, half + 2**62 + 2**62, half)
    quotient = torch.div(half, divisor, rounding_mode="floor")
    rest = 2 * (half - quotient * divisor) + bit
    carry = torch.div(rest, divisor, rounding_mode="floor")
    return 2 * quotient + carry, rest - carry * divisor


def as_unsigned(ids: Tensor) -> Tensor:
    return ids if ids.dtype == torch.int64 else torch.where(ids < 0, ids.long() + 2**32, ids.long())


def divide_blocks(
    ids: Tensor, feature: Tensor, block_sizes: Tensor, total_num_blocks: Optional, count: int
) -> tuple[Tensor, Tensor]:
    """The bucket of each id and its index there: blocks one after the other, and beyond them in turns."""
    size = checks.pick(block_sizes.long(), feature)
    if total_num_blocks is None:
        total: int | Tensor = count
        quotient, rest = unsigned_divide(ids, count)
        turn = rest
    else:
        blocks = total_num_blocks.long()
        total = checks.pick(blocks, feature).clamp(min=1)
        local = checks.pick(torch.div(blocks, count, rounding_mode="floor").clamp(min=1), feature)
        size, whole = size * local, size * total
        quotient, rest = unsigned_divide(ids, total)
        turn = torch.div(rest, local, rounding_mode="floor")
    limit = size * count if total_num_blocks is None else whole
    inside = (ids >= 0) & (ids < limit)
    block = torch.div(ids, size.clamp(min=1), rounding_mode="floor")
    return torch.where(inside, block, turn), torch.where(inside, ids - block * size, quotient)


def divide_ranges(ids: Tensor, feature: Tensor, bounds: Sequence[Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The same with ranges of ids: bucket p of feature t has [bounds[t][p], bounds[t][p + 1])."""
    table = torch.stack([bound.long() for bound in bounds])
    quotient, rest = unsigned_divide(ids, count)
    bucket = torch.zeros_like(ids)
    for p in range(1, count):
        bucket += ids >= checks.pick(table[:, p].contiguous(), feature)
    inside = (ids >= 0) & (ids < checks.pick(table[:, count].contiguous(), feature))
    start = checks.pick(table.flatten(), feature * (count + 1) + bucket)
    return torch.where(inside, bucket, rest), torch.where(inside, ids - start, quotient)


def features_of(op: str, lengths: Tensor, features: int, batch_sizes: Optional) -> Tensor:
    """[R]: the feature of each bag."""
    if batch_sizes is not None:
        checks.rows(op, "batch_size_per_feature", batch_sizes, features, "block_sizes")
        return checks.segment_of(checks.complete_offsets(batch_sizes), lengths.numel())
    checks.require(
        lengths.numel() % max(features, 1) == 0,
        f"{op}: lengths must have as many entries for each of the {features} features, got {lengths.numel()}",
    )
    batch = lengths.numel() // max(features, 1)
    return torch.div(checks.counting(lengths.numel(), lengths), max(batch, 1), rounding_mode="floor").long()


def check_ids(op: str, lengths: Tensor, indices: Tensor, my_size: int, weights: Optional) -> None:
    checks.index_vector(op, lengths=lengths, indices=indices)
    checks.require(my_size > 0, f"{op}: my_size must be at least 1, got {my_size}")
    if weights is not None:
        checks.rows(op, "weights", weights, indices.numel(), "indices")
        checks.same_device(op, "weights", weights, indices)


@composite("block_bucketize_sparse_features")
def block_bucketize_sparse_features(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Optional = None,
    batch_size_per_feature: Optional = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    keep_orig_idx: bool = False,
    total_num_blocks: Optional = None,
) -> tuple[Tensor, Tensor, Optional, Optional, Optional]:
    """Lengths [my_size * R], ids [L], weights, positions in their bags, and where each id went (`sequence`)."""
    return _block_bucketize(
        "block_bucketize_sparse_features",
        lengths,
        indices,
        bucketize_pos,
        sequence,
        block_sizes,
        my_size,
        weights,
        batch_size_per_feature,
        block_bucketize_pos,
        keep_orig_idx,
        total_num_blocks,
    )[:5]


@composite("block_bucketize_sparse_features_inference")
def block_bucketize_sparse_features_inference(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Optional = None,
    batch_size_per_feature: Optional = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    return_bucket_mapping: bool = False,
    keep_orig_idx: bool = False,
    total_num_blocks: Optional = None,
) -> tuple[Tensor, Tensor, Optional, Optional, Optional, Optional]:
    """The same, and the bucket of each id (`return_bucket_mapping`)."""
    results = _block_bucketize(
        "block_bucketize_sparse_features_inference",
        lengths,
        indices,
        bucketize_pos,
        sequence,
        block_sizes,
        my_size,
        weights,
        batch_size_per_feature,
        block_bucketize_pos,
        keep_orig_idx,
        total_num_blocks,
    )
    return (*results[:5], results[5] if return_bucket_mapping else None)


def _block_bucketize(
    op: str,
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Optional,
    batch_sizes: Optional,
    ranges: Sequence[Tensor] | None,
    keep_ids: bool,
    blocks: Optional,
) -> tuple[Tensor, Tensor, Optional, Optional, Optional, Tensor]:
    check_ids(op, lengths, indices, my_size, weights)
    checks.index_vector(op, indices=indices, block_sizes=block_sizes, total_num_blocks=blocks, batch_sizes=batch_sizes)
    if blocks is not None:
        checks.rows(op, "total_num_blocks", blocks, block_sizes.numel(), "block_sizes")
    bags = Bags.of(lengths, indices.numel())
    feature = checks.pick(features_of(op, lengths, block_sizes.numel(), batch_sizes), bags.row)
    ids = as_unsigned(indices)
    if ranges is None:
        bucket, inside = divide_blocks(ids, feature, block_sizes, blocks, my_size)
    else:
        checks.require(
            len(ranges) == block_sizes.numel(),
            f"{op}: block_bucketize_pos has {len(ranges)} tensors; expected one a feature ({block_sizes.numel()})",
        )
        for bound in ranges:
            checks.index_vector(op, indices=indices, block_bucketize_pos=bound)
            checks.rows(op, "each of block_bucketize_pos", bound, my_size + 1, "my_size and one more")
        bucket, inside = divide_ranges(ids, feature, ranges, my_size)
    buckets = Buckets.of(bucket, bags, my_size, lengths)
    new = buckets.moved(indices if keep_ids else inside.to(indices.dtype))
    assert new is not None
    return (
        buckets.lengths,
        new,
        buckets.moved(weights),
        buckets.moved(_positions(bags, indices)) if bucketize_pos else None,
        buckets.places(indices) if sequence else None,
        bucket.to(indices.dtype),
    )


def _positions(bags: Bags, indices: Tensor) -> Tensor:
    starts = checks.pick(bags.offsets[:-1].long(), bags.row)
    return (checks.counting(indices.numel(), starts) - starts).to(indices.dtype)


@composite("bucketize_sparse_features")
def bucketize_sparse_features(
    lengths: Tensor, indices: Tensor, bucketize_pos: bool, my_size: int, weights: Optional = None
) -> tuple[Tensor, Tensor, Optional, Optional]:
    """Ids in turns: id i goes to bucket i % my_size as i // my_size."""
    check_ids("bucketize_sparse_features", lengths, indices, my_size, weights)
    bags = Bags.of(lengths, indices.numel())
    quotient, bucket = unsigned_divide(as_unsigned(indices), my_size)
    buckets = Buckets.of(bucket, bags, my_size, lengths)
    new = buckets.moved(quotient.to(indices.dtype))
    assert new is not None
    positions = buckets.moved(_positions(bags, indices)) if bucketize_pos else None
    return buckets.lengths, new, buckets.moved(weights), positions


@composite("populate_bucketized_permute")
def populate_bucketized_permute(lengths: Tensor, bucketized_lengths: Tensor, bucket_mapping: Tensor) -> Tensor:
    """[L]: where each id goes, of the bucket that each has."""
    op = "populate_bucketized_permute"
    checks.index_vector(op, lengths=lengths, bucketized_lengths=bucketized_lengths, bucket_mapping=bucket_mapping)
    checks.require(
        bucketized_lengths.numel() % max(lengths.numel(), 1) == 0,
        f"{op}: bucketized_lengths must have as many entries for each bucket as lengths ({lengths.numel()}), got "
        f"{bucketized_lengths.numel()}",
    )
    order = torch.sort(bucket_mapping.float(), stable=True)[1]
    return inverse(order).to(lengths.dtype)
