"""Operators of third parties that move elements: gathers, transposes, repeats, places of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from third_party_case import Case
from third_party_values import HALF, ROWS, floats


def one_hot(x: np.ndarray) -> np.ndarray:
    return (x[..., None] == np.arange(6)).astype(np.float64)


def rows_and_indices(dtype: str, index: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    return lambda r, n: [r.normal(size=(9, n)).astype(dtype), r.integers(0, 9, 20).astype(index)]


def repeated(r: np.random.Generator, n: int) -> list[Any]:
    return [r.normal(size=(n, 1 + n % 50)).astype(np.float32), r.integers(0, 4, n)]


MOVES = (
    Case(
        "OneHotCustom",
        "one_hot_custom",
        lambda r, n: [r.integers(-1, 7, n).astype(np.int32)],
        lambda x: one_hot(x),
        (6,),
        sizes=(1, 9, 100),
    ),
    Case("EvenLanes", "even_lanes", floats(), lambda x: x[::2], sizes=(1, 8, 63, 64, 500)),
    Case(
        "TransposeBlocks",
        "transpose_blocks",
        floats(lambda n: (16, n), **HALF),
        lambda x: x.T,
        sizes=(16, 32, 400),
        tolerance=0,
    ),
    *(
        Case(
            "GatherRowsCustom",
            "gather_rows_custom",
            rows_and_indices(dtype, index),
            lambda x, k: x[k.astype(int)],
            sizes=ROWS,
            tolerance=0,
        )
        for dtype in ("float32", "float16")
        for index in ("int32", "int64")
    ),
    Case("RepeatInterleaveCustom", "repeat_interleave_custom", repeated, lambda x, k: x.repeat(k.astype(int), 0)),
    Case(
        "RollCustom",
        "roll_custom",
        lambda r, n: [r.normal(size=n).astype(np.float32), r.integers(-2 * n, 2 * n, 1).astype(np.int32)],
        lambda x, k: np.roll(x, int(k[0])),
    ),
    Case(
        "NonZeroCustom",
        "non_zero_custom",
        lambda r, n: [r.integers(0, 2, (5, n)).astype(np.float32)],
        lambda x: np.argwhere(x),
        sizes=ROWS,
    ),
)
