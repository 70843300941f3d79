"""Numpy references of the jagged operators, written from the recursive definition (docs/operators.md)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

# Data types by (numpy storage, code of the tensor or None): every one that the operators declare.
TYPES = [
    ("float32", None),
    ("float16", None),
    ("uint16", 27),  # bfloat16
    ("int8", None),
    ("uint8", None),
    ("int16", None),
    ("int32", None),
    ("int64", None),
    ("float64", None),
    ("bool", None),
    ("complex64", None),
]


def stored_row(offsets: Sequence[np.ndarray], cell: Sequence[int]) -> int | None:
    """Row of values behind the cell (b, s1..sK), None where the cell is padding."""
    node, *steps = cell
    for level, step in zip(offsets, steps):
        if step >= level[node + 1] - level[node]:
            return None
        node = int(level[node]) + step
    return node


def to_dense(values: np.ndarray, offsets: Sequence[np.ndarray], max_lengths: Sequence[int], padding) -> np.ndarray:
    shape = (len(offsets[0]) - 1, *max_lengths)
    dense = np.empty((*shape, values.shape[1]), values.dtype)
    for cell in itertools.product(*map(range, shape)):
        row = stored_row(offsets, cell)
        dense[cell] = padding if row is None or row >= len(values) else values[row]
    return dense


def to_jagged(dense: np.ndarray, offsets: Sequence[np.ndarray], total_len: int) -> np.ndarray:
    values = np.zeros((total_len, dense.shape[-1]), dense.dtype)
    for cell in itertools.product(*map(range, dense.shape[:-1])):
        row = stored_row(offsets, cell)
        if row is not None and row < total_len:
            values[row] = dense[cell]
    return values


def random_offsets(rng: np.random.Generator, batch: int, dims: int, longest: int, dtype: str) -> list[np.ndarray]:
    """K levels of offsets with empty rows among them."""
    offsets = []
    nodes = batch
    for _ in range(dims):
        lengths = rng.integers(0, longest + 1, nodes) * (rng.random(nodes) > 0.2)
        offsets.append(np.concatenate([[0], np.cumsum(lengths)]).astype(dtype))
        nodes = int(offsets[-1][-1])
    return offsets


def random_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random bits, NaN payloads and signed zeros included."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    width = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    return rng.integers(0, 256, count * width, dtype=np.uint8).view(dtype).reshape(shape)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def bits_of(value, dtype: str) -> int:
    """The padding_bits attribute of a padding value."""
    return int.from_bytes(np.array([value], dtype).tobytes(), "little", signed=True)
