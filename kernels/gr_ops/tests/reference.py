"""The recursive definition of jagged tensors in plain Python over NumPy (docs/operators.md); independent of kernels."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


def cells(offsets: Sequence[Array], lengths: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every stored cell (b, s1..sK) with its row of values."""

    def walk(level: int, node: int, position: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
        first, end = int(offsets[level][node]), int(offsets[level][node + 1])
        for s in range(min(end - first, lengths[level])):
            if level + 1 == len(offsets):
                yield (*position, s), first + s
            else:
                yield from walk(level + 1, first + s, (*position, s))

    for b in range(len(offsets[0]) - 1):
        yield from walk(0, b, (b,))


def pad(values: Array, offsets: Sequence[Array], lengths: Sequence[int], padding: object) -> Array:
    """[L, trailing...] -> [B, S1..SK, trailing...]."""
    dense = np.full((len(offsets[0]) - 1, *lengths, *values.shape[1:]), padding, dtype=values.dtype)
    for cell, row in cells(offsets, lengths):
        if row < len(values):
            dense[cell] = values[row]
    return dense


def unpad(dense: Array, offsets: Sequence[Array], total: int) -> Array:
    """[B, S1..SK, trailing...] -> [total, trailing...]; what dense does not hold is 0."""
    levels = len(offsets)
    values = np.zeros((total, *dense.shape[1 + levels :]), dtype=dense.dtype)
    for cell, row in cells(offsets, dense.shape[1 : 1 + levels]):
        if row < total:
            values[row] = dense[cell]
    return values


def block_starts(lengths: Array) -> Array:
    """Where the block of each feature starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths.sum(axis=tuple(range(1, lengths.ndim)), dtype=np.int64))])


def permute_rows(permute: Sequence[int], lengths: Array, rows: Array) -> Array:
    """The blocks of `rows` in the order of permute (3.3); lengths [T] or [T, B]."""
    starts = block_starts(lengths)
    blocks = [rows[starts[p] : starts[p + 1]] for p in permute]
    return np.concatenate([rows[:0], *blocks])


def permute_rows_grad(permute: Sequence[int], lengths: Array, grad: Array) -> Array:
    """The sum over all copies of each row, in ascending position of permute (3.4)."""
    starts = block_starts(lengths)
    result = np.zeros((starts[-1], *grad.shape[1:]), grad.dtype)
    at = 0
    for p in permute:
        count = starts[p + 1] - starts[p]
        result[starts[p] : starts[p + 1]] += grad[at : at + count]
        at += count
    return result


def check_bounds(
    rows: Sequence[int], indices: list[int], offsets: list[int], bags: Sequence[int]
) -> tuple[list[int], list[int], int]:
    """The sequential algorithm of section 8: repaired indices and offsets, and the number of violations.

    bags: the first bag of each table and, at the end, the number of bags.
    """
    indices, offsets, count, n = list(indices), list(offsets), 0, len(indices)
    if offsets[-1] != n:
        offsets[-1] = n
        count += 1
    for table, limit in enumerate(rows):
        for bag in range(bags[table], bags[table + 1]):
            start, end = offsets[bag], offsets[bag + 1]
            if start < 0 or start > end or end > n:
                start = min(max(start, 0), n)
                end = min(max(end, start), n)
                offsets[bag], offsets[bag + 1] = start, end
                count += 1
            for i in range(start, end):
                if indices[i] != -1 and not 0 <= indices[i] < limit:
                    indices[i] = 0
                    count += 1
    return indices, offsets, count
