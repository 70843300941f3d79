"""Inputs, sizes and references that cases of several kinds share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HALF = {"dtype": "float16"}
ROWS = (1, 5, 64, 65, 1000)


def floats(*shape_of: Callable[[int], tuple[int, ...]], dtype: str = "float32", low: float = -3, high: float = 3):
    """Inputs between bounds; the shape follows from a size."""
    shape = shape_of[0] if shape_of else lambda n: (n,)
    return lambda r, n: [r.uniform(low, high, shape(n)).astype(dtype)]


def twice(make: Callable[[np.random.Generator, int], list[Any]]) -> Callable[[np.random.Generator, int], list[Any]]:
    return lambda r, n: [*make(r, n), *make(r, n)]


def matrix(n: int) -> tuple[int, int]:
    return (5, n)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x >= 0, x, x * slope)
