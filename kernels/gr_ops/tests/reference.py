"""The recursive definition of spec/operators.md 2.4 in plain Python over NumPy; independent of every kernel."""

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
