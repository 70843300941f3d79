"""Calls of fbgemm's names that are composites on the NPU: arguments on the CPU, drawn from a seed.

B bags, of 0 to 5 rows each, S the longest, L rows in all. Sizes are small and odd: nothing is a multiple of anything,
some bags and one feature are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Call = tuple[str, tuple[Any, ...]]


def lengths_of(bags: int, dtype: torch.dtype = torch.int64, most: int = 5) -> Tensor:
    lengths = torch.randint(0, most + 1, (bags,))
    lengths[::4] = 0
    return lengths.to(dtype)


def offsets_of(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(lengths.dtype)


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(dtype)


def bucketize() -> Iterator[Call]:
    for dtype in (torch.int32, torch.int64):
        for ranks in (1, 2, 5):
            for T, B in ((1, 7), (3, 5), (4, 1)):
                lengths = lengths_of(T * B, dtype)
                ids = torch.randint(0, 60, (int(lengths.sum()),)).to(dtype)
                ids[::7] = -3 - ids[::7]  # hashed ids are negative in half of the cases
                weights = floats(ids.numel())
                sizes = torch.randint(3, 9, (T,)).to(dtype)
                blocks = torch.randint(1, 4, (T,)).to(dtype) * ranks
                bounds = [
                    torch.cat([torch.zeros(1), torch.randint(1, 9, (ranks,)).cumsum(0)]).to(dtype) for _ in range(T)
                ]
                name = "block_bucketize_sparse_features"
                yield name, (lengths, ids, True, True, sizes, ranks, weights)
                yield name, (lengths, ids, False, False, sizes, ranks)
                yield name, (lengths, ids, False, True, sizes, ranks, None, None, -1, None, True)
                yield name, (lengths, ids, False, True, sizes, ranks, None, None, -1, None, False, blocks)
                yield name, (lengths, ids, False, True, sizes, ranks, weights, None, -1, bounds)
                batches = torch.full((T,), B).to(dtype)
                batches[0] += B - 1 if T > 1 else 0
                batches[-1] -= B - 1 if T > 1 else 0
                yield name, (lengths, ids, True, True, sizes, ranks, weights, batches, 2 * B)
                name = "block_bucketize_sparse_features_inference"
                yield name, (lengths, ids, True, True, sizes, ranks, weights, None, -1, None, True)
                yield name, (lengths, ids, False, False, sizes, ranks, None, None, -1, bounds, False, True)
                yield "bucketize_sparse_features", (lengths, ids, True, ranks, weights)
                yield "bucketize_sparse_features", (lengths, ids, False, ranks)
                bucket = torch.randint(0, ranks, (ids.numel(),)).to(dtype)
                bag = torch.repeat_interleave(torch.arange(T * B), lengths.long())
                counts = torch.bincount(bucket * T * B + bag, minlength=ranks * T * B).to(dtype)
                yield "populate_bucketized_permute", (lengths, counts, bucket)
    none = torch.zeros(0, dtype=torch.int64)
    for lengths in (torch.zeros(4, dtype=torch.int64), none):
        sizes = torch.tensor([5, 4]) if lengths.numel() else none + 1
        if lengths.numel():  # without features fbgemm_gpu divides by zero
            yield "block_bucketize_sparse_features", (lengths, none, True, True, sizes, 2, floats(0))
        yield "bucketize_sparse_features", (lengths, none, True, 2, floats(0))


def ranges() -> Iterator[Call]:
    for dtype in (torch.int32, torch.int64):
        for bags in (1, 6):
            permute = torch.randperm(bags).to(dtype)
            lengths = lengths_of(bags, dtype)
            offsets, permuted = offsets_of(lengths), offsets_of(lengths[permute.long()])
            yield "expand_into_jagged_permute", (permute, offsets, permuted, int(offsets[-1]))
            yield "invert_permute", (permute,)
            # fbgemm_gpu writes before its result for an empty segment at the end
            starts = offsets_of(torch.randint(1, 5, (bags,)).to(dtype))
            yield "offsets_range", (starts[:-1].contiguous(), int(starts[-1]))
            yield "lengths_range", (lengths,)
            yield "lengths_range", (lengths, [int(lengths.sum())])
        none = torch.zeros(0, dtype=dtype)
        yield "invert_permute", (none,)
        yield "offsets_range", (none, 0)


def pooled() -> Iterator[Call]:
    for dtype in (torch.float32, torch.float16):
        for B in (0, 3):
            widths = torch.tensor([3, 1, 4, 5])
            values = floats(B, 13, dtype=dtype)
            permute = torch.tensor([2, 0, 3, 1])
            lists = (offsets_of(widths), permute, offsets_of(widths[permute]), torch.argsort(permute))
            copies = torch.tensor([2, 2, 0, 1, 2])
            repeated = (offsets_of(widths), copies, offsets_of(widths[copies]), torch.zeros(5, dtype=torch.int64))
            for form in ("", "_split", "_auto_grad", "_auto_grad_split"):
                yield f"permute_pooled_embs{form}", (values, *lists)
                yield f"permute_duplicate_pooled_embs{form}", (values, *repeated)
    inputs = [floats(3, 5), floats(3, 1), floats(3, 6)]
    keys, sizes = [["a", "b"], ["c"], ["d", "e", "f"]], [[2, 3], [1], [3, 1, 2]]
    for groups in (
        [["a", "c", "f"], ["b", "d", "e"]],
        [["f", "a"], ["a", "b", "a"], ["e", "c", "d"]],
    ):  # fbgemm_gpu: no gradient of what is left out
        yield "kt_regroup_arguments", (inputs[0], keys, sizes, groups)
        yield "regroup_keyed_tensor", (inputs, keys, sizes, groups)
        plan = torch.ops.fbgemm.kt_regroup_arguments(inputs[0], keys, sizes, groups)
        yield "permute_multi_embedding", (inputs, *plan)
        yield "permute_multi_embedding_function", (inputs, *plan, False)
        grads = [floats(3, width) for width in plan[3]]
        back = (plan[0], plan[2], plan[1], [5, 1, 6])
        yield "permute_multi_embedding_function", (grads, *back, True)


def products() -> Iterator[Call]:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for index in (torch.int32, torch.int64):
            lengths = lengths_of(7, index)
            offsets, rows, longest = offsets_of(lengths), int(lengths.sum()), max(int(lengths.max()), 1)
            x, dense = floats(rows, 3, dtype=dtype), floats(7, longest, 3, dtype=dtype)
            for name in ("jagged_dense_bmm", "jagged_dense_bmm_forward"):
                for most in (longest, max(longest - 2, 1)):
                    yield name, (x, offsets, floats(7, 3, 4, dtype=dtype), most)
            for name in ("jagged_jagged_bmm", "jagged_jagged_bmm_forward"):
                yield name, (x, floats(rows, 2, dtype=dtype), offsets, longest)
            for name in ("jagged_softmax", "jagged_softmax_forward"):
                yield name, (x, offsets, longest)
            yield "jagged_softmax_backward", (floats(rows, 3, dtype=dtype), x.softmax(1), offsets, longest)
            if index == torch.int64 and dtype != torch.bfloat16:
                shorter = floats(7, max(longest - 2, 1), 3, dtype=dtype)
                yield "jagged_dense_elementwise_add", (x, [offsets], dense)
                for y in (dense, shorter):
                    yield "jagged_dense_elementwise_add_jagged_output", (x, [offsets], y)
                    yield "jagged_dense_elementwise_mul", (x, [offsets], y)
                    yield "jagged_dense_elementwise_mul_forward", (x, [offsets], y)
                    yield "jagged_dense_elementwise_mul_backward", (x, [offsets], y, x + 1)
                    for form in ("", "_forward"):
                        yield f"jagged_dense_dense_elementwise_add_jagged_output{form}", (x, [offsets], y, y + 1)
    for index in (torch.int32, torch.int64):
        lengths = lengths_of(5, index)
        offsets, longest = offsets_of(lengths), max(int(lengths.max()), 1)
        a = floats(int(lengths.sum()), 6)
        for form in ("", "_forward"):
            yield f"batched_dense_vec_jagged_2d_mul{form}", (floats(10, longest), a, offsets)
            yield f"batched_dense_vec_jagged_2d_mul{form}", (floats(5, longest), a, offsets)
    yield "segment_sum_csr", (2, torch.tensor([0, 2, 2, 5], dtype=torch.int32), floats(10))
    yield "segment_sum_csr", (1, torch.tensor([0, 3, 4], dtype=torch.int32), floats(4))
    none = torch.zeros(1, dtype=torch.int64)
    yield "jagged_softmax", (floats(0, 3), torch.zeros(2, dtype=torch.int64), 2)
    yield "jagged_jagged_bmm", (floats(0, 3), floats(0, 2), torch.zeros(3, dtype=torch.int64), 2)
    yield "segment_sum_csr", (1, none.int(), floats(0))


def selection() -> Iterator[Call]:
    for dtype in (torch.float32, torch.float16, torch.int32, torch.int64):
        lengths = lengths_of(6)
        values = (10 * floats(int(lengths.sum()), 3)).to(dtype)
        indices = torch.tensor([5, 1, 1, 3, 0])
        ends, picked = lengths.cumsum(0), lengths[indices].cumsum(0)
        total = int(picked[-1])
        yield "jagged_index_select_2d_forward", (values, indices, ends, picked, total)
        yield "jagged_index_select", (values, lengths, indices)
        yield "jagged_index_select", (values, lengths.int(), indices.int(), total)
        if dtype != torch.float16:
            added = (10 * floats(total, 3)).to(dtype)
            yield "jagged_index_add_2d_forward", (added, indices, picked, ends, total, int(ends[-1]))
        matrix = values[:4].contiguous()
        yield "index_select_dim0", (matrix, torch.tensor([3, 0, 3]))
    inputs = floats(4 * 3 + 2 * 5 + 3)
    yield "batch_index_select_dim0", (inputs, torch.tensor([3, 0, 1, 1, 0, 2]), [2, 3, 1], [4, 2, 3], [3, 5, 1], False)
    yield "batch_index_select_dim0", (inputs, torch.tensor([3, 0, 1, 1, 0, 2]), [2, 2, 2], [4, 2, 3], [3, 5, 1], True)
    group = [floats(4, 3), floats(4, 3)]
    yield "group_index_select_dim0", (group, [torch.tensor([1, 0, 3]), torch.tensor([2, 2, 0])])
    for index in (torch.int32, torch.int64):
        lengths = lengths_of(6, index)
        values = torch.arange(int(lengths.sum()))
        yield "masked_select_jagged_1d", (values, lengths, torch.rand(values.numel()) < 0.5)
        yield "jagged_1d_to_truncated_values", (values, lengths, 2)


def structure() -> Iterator[Call]:
    for index in (torch.int32, torch.int64):
        lengths = lengths_of(6, index).view(3, 2)
        values = torch.arange(int(lengths.sum())).to(index)
        weights = floats(values.numel())
        permute = torch.tensor([2, 0, 1], dtype=torch.int32)
        yield "permute_sparse_data", (permute, lengths, values, weights)
        yield "permute_sparse_features", (permute, lengths, values, weights)
        yield "permute_sparse_features", (permute, lengths, values)
        yield "permute_2D_sparse_data_input1D", (permute, lengths.flatten(), values, 2, weights)
        yield "permute_2D_sparse_data_input1D", (permute, lengths.flatten(), values, 2, None, values.numel())
        lengths = lengths_of(5, index)
        offsets, rows = offsets_of(lengths), int(lengths.sum())
        for longest in (2, 6):
            yield "jagged_1d_to_dense", (torch.arange(rows), offsets, longest, -1)
            yield "jagged_2d_to_dense", (floats(rows, 3), offsets, longest)
            yield "pack_segments", (floats(rows, 3), lengths, longest)
            for minus, mask in ((False, False), (True, True)):
                yield "pack_segments_v2", (floats(rows, 3), lengths, longest, minus, mask)
        yield "pack_segments_backward", (floats(5, 6, 3), lengths, rows, 6)
        keyed = lengths_of(6, index).view(2, 3)
        split = [0, int(keyed[0].sum()), int(keyed.sum())]
        yield "stacked_jagged_1d_to_dense", (torch.arange(split[-1]), keyed, split, [2, 6], -1)
        yield "stacked_jagged_2d_to_dense", (floats(split[-1], 3), keyed, split, [2, 6], 0)


def others() -> Iterator[Call]:
    """What fbgemm_gpu has no kernels for on the CPU; REFERENCES answers."""
    for dtype in (torch.int32, torch.int64):
        for T, B in ((1, 4), (3, 5)):
            lengths = lengths_of(T * B, dtype)
            offsets, rows = offsets_of(lengths), int(lengths.sum())
            bags = torch.tensor([B - 1, 0, B - 1, 1]).to(dtype)
            total = int(lengths.view(T, B)[:, bags.long()].sum())
            name = "keyed_jagged_index_select_dim1"
            yield name, (floats(rows), lengths, offsets, bags, B, floats(rows), total)
            yield name, (torch.arange(rows), lengths, offsets, bags, B)
            none = bags[:0]
            yield name, (floats(rows), lengths, offsets, none, B, floats(rows))
    yield (
        "keyed_jagged_index_select_dim1",
        (floats(0), torch.zeros(4).long(), torch.zeros(5).long(), torch.zeros(2).long(), 2),
    )
    # features f0 and f1 share a table of 9 rows, f2 and f3 have one each, of 4 and 7
    hash_sizes, first = torch.tensor([0, 0, 9, 13, 20]), torch.tensor([0, 2, 2, 3, 4])
    for B in (1, 5):
        lengths = lengths_of(4 * B)
        limits = torch.repeat_interleave(torch.tensor([9, 9, 4, 7]), B).repeat_interleave(lengths)
        ids = (torch.rand(limits.numel()) * limits).long()
        yield "jagged_unique_indices", (hash_sizes, first, offsets_of(lengths), ids)
    yield "jagged_unique_indices", (hash_sizes, first, torch.zeros(5).long(), torch.zeros(0).long())


def keyed_select(
    values: Tensor,
    lengths: Tensor,
    offsets: Tensor,
    indices: Tensor,
    batch: int,
    weights: Tensor | None = None,
    total: int | None = None,
) -> list[Tensor]:
    bags = [first + int(i) for first in range(0, lengths.numel(), batch) for i in indices]
    rows = [row for bag in bags for row in range(int(offsets[bag]), int(offsets[bag + 1]))]
    picked = [values[rows], lengths[bags]]
    return picked if weights is None else [*picked, weights[rows]]


def unique_ids(hash_sizes: Tensor, first: Tensor, offsets: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    """A set for each table, and its size divided among the bags of the table's features, the first ones taking more."""
    T = hash_sizes.numel() - 1
    B = (offsets.numel() - 1) // T
    unique, lengths, places = [], [], torch.zeros_like(ids)
    for t in range(T):
        bags = range(int(first[t]) * B, int(first[t + 1]) * B)
        if not bags:
            continue
        here = slice(int(offsets[bags[0]]), int(offsets[bags[-1] + 1]))
        table = sorted(set(ids[here].tolist()))
        places[here] = torch.tensor([len(unique) + table.index(i) for i in ids[here].tolist()], dtype=ids.dtype)
        unique += table
        lengths += [len(table) // len(bags) + (bag < len(table) % len(bags)) for bag in range(len(bags))]
    counted = torch.tensor(lengths)
    return counted, offsets_of(counted), torch.tensor(unique, dtype=ids.dtype), places


REFERENCES: dict[str, Callable[..., Any]] = {
    "keyed_jagged_index_select_dim1": keyed_select,
    "jagged_unique_indices": unique_ids,
}
FAMILIES: dict[str, Callable[[], Iterator[Call]]] = {
    "bucketize": bucketize,
    "ranges": ranges,
    "pooled": pooled,
    "products": products,
    "selection": selection,
    "structure": structure,
    "others": others,
}
# Takes a device as its argument: in a test of its own.
WITH_A_TARGET = {"all_to_one_device", "merge_pooled_embeddings", "sum_reduce_to_one"}
_DIFFERENTIABLE = {
    "permute_pooled_embs_auto_grad",
    "permute_pooled_embs_auto_grad_split",
    "permute_multi_embedding",
    "regroup_keyed_tensor",
    "jagged_dense_bmm",
    "jagged_jagged_bmm",
    "jagged_softmax",
    "jagged_dense_elementwise_add",
    "jagged_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_mul",
    "jagged_dense_dense_elementwise_add_jagged_output",
    "batched_dense_vec_jagged_2d_mul",
    "jagged_index_select",
    "batch_index_select_dim0",
    "group_index_select_dim0",
    "keyed_jagged_index_select_dim1",
    "jagged_2d_to_dense",
    "stacked_jagged_2d_to_dense",
    "pack_segments",
    "pack_segments_v2",
}


def differentiable(name: str, arguments: tuple[Any, ...]) -> bool:
    """Whether gradients are compared; fbgemm_gpu's of segments that are cut off are in the wrong rows."""
    cut = name.startswith("pack_segments") and int(arguments[1].max()) > arguments[2]
    return name in _DIFFERENTIABLE and not cut
