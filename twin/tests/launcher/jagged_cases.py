"""Prefix sums, and jagged to dense and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cases import Case, NoOutput, Output
from jagged_reference import random_offsets, to_dense, to_jagged
from workshop import Operator

CUMSUM = Operator(
    "asynchronous_complete_cumsum",
    "AsynchronousCompleteCumsum",
    4,
    {"DTYPE_X": "int64_t", "ORIG_DTYPE_X": "DT_INT64"},
)
TO_DENSE = Operator("jagged_to_padded_dense", "JaggedToPaddedDense", 7, {"DTYPE_OFFSETS": "int64_t"})
TO_JAGGED = Operator("dense_to_jagged", "DenseToJagged", 7, {"DTYPE_OFFSETS": "int64_t"})


def cumsum_case(name: str, shape: Sequence[int], seed: int = 1) -> Case:
    x = np.random.default_rng(seed).integers(-1000, 1000, shape)
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    return Case(name, [x, Output(np.concatenate([zero, np.cumsum(x, axis=-1)], axis=-1))])


def to_dense_case(
    name: str, batch: int, lengths: tuple[int, ...], inner: int, dtype: str = "int32", padding: int = -7
) -> Case:
    rng = np.random.default_rng(batch + inner)
    offsets = random_offsets(rng, batch, len(lengths), max(lengths) + 3, "int64")
    values = rng.integers(1, 30000, (int(offsets[-1][-1]), inner)).astype(dtype)
    dense = to_dense(values, offsets, lengths, padding)
    return Case(name, [values, offsets, None, lengths, padding, Output(dense), NoOutput()])


def to_jagged_case(
    name: str, batch: int, lengths: tuple[int, ...], inner: int, dtype: str = "int32", extra: int = 2
) -> Case:
    rng = np.random.default_rng(batch + inner)
    offsets = random_offsets(rng, batch, len(lengths), max(lengths) + 3, "int64")
    total = int(offsets[-1][-1]) + extra
    dense = rng.integers(1, 30000, (batch, *lengths, inner)).astype(dtype)
    return Case(name, [dense, offsets, None, total, Output(to_jagged(dense, offsets, total)), NoOutput()])


def wrong_offsets_case(operator: Operator) -> Case:
    """Offsets that point outside: the kernel must stay inside its tensors, whatever it writes."""
    offsets = [np.array([0, 900, 3, 2**40, -5, 7])]
    if operator is TO_DENSE:
        dense = Output(np.zeros((5, 4, 5), np.int32), compared=False)
        return Case("wrong offsets", [np.ones((3, 5), np.int32), offsets, None, (4,), 0, dense, NoOutput()])
    values = Output(np.zeros((6, 5), np.int32), compared=False)
    return Case("wrong offsets", [np.ones((5, 4, 5), np.int32), offsets, None, 6, values, NoOutput()])


# One row shared by all cores (several tiles each, on few cores more than stay in the unified buffer), shared rows,
# whole rows in several tiles, short rows, one element.
CUMSUM_CASES = [
    cumsum_case("one", (1,)),
    cumsum_case("short rows", (70, 7)),
    cumsum_case("long rows", (3, 5003)),
    cumsum_case("rows of one tile", (3, 4096)),
    cumsum_case("shared row", (20001,)),
    cumsum_case("uneven parts", (16500,)),
    cumsum_case("longer than the buffers", (57601,)),  # two cores have 8 and 7 tiles
    cumsum_case("a part that fills its tiles", (16384,)),
    cumsum_case("shared rows", (3, 9001)),
]
TO_DENSE_CASES = [
    to_dense_case("odd inner", 33, (30,), 17),
    to_dense_case("nested", 5, (3, 4, 2), 3),
    to_dense_case("halves", 40, (30,), 65, dtype="int16"),
    to_dense_case("long rows", 3, (4,), 30000),
    to_dense_case("wide padding", 4, (400,), 33, dtype="int64", padding=2**40 + 5),
    wrong_offsets_case(TO_DENSE),
]
TO_JAGGED_CASES = [
    to_jagged_case("odd inner", 33, (30,), 17),
    to_jagged_case("nested", 5, (3, 4, 2), 3),
    to_jagged_case("halves", 40, (30,), 65, dtype="int16"),
    to_jagged_case("long rows", 3, (4,), 30000),
    to_jagged_case("rows without a cell", 9, (4,), 50, extra=400),
    wrong_offsets_case(TO_JAGGED),
]
CASES = {CUMSUM: CUMSUM_CASES, TO_DENSE: TO_DENSE_CASES, TO_JAGGED: TO_JAGGED_CASES}
