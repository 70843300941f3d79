"""Values that ranks exchange, and what numpy makes of them."""

from __future__ import annotations

from functools import reduce

import numpy as np
from hccl_api import (
    BFP16,
    FP16,
    MAX,
    MIN,
    NUMPY_TYPE,
    PROD,
    SUM,
    Array,
)


def bf16_from_float(values: Array) -> Array:
    """Round to nearest even by choosing the nearer of the two neighbours in float64."""
    exact = np.asarray(values, np.float32)
    low = (exact.view(np.uint32) >> 16).astype(np.uint32)
    below, above = (low << 16).view(np.float32), ((low + 1) << 16).view(np.float32)
    to_below = np.abs(exact.astype(np.float64) - below)
    to_above = np.abs(above.astype(np.float64) - exact)
    up = (to_above < to_below) | ((to_above == to_below) & (low % 2 == 1))
    return np.where(up, low + 1, low).astype(np.uint16)


def bf16_to_float(bits: Array) -> Array:
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def sample(rank: int, data_type: int, count: int) -> Array:
    random = np.random.default_rng([rank, data_type, count])
    kind = NUMPY_TYPE[data_type]
    if data_type == BFP16:
        return bf16_from_float(random.normal(size=count).astype(np.float32))
    if np.issubdtype(kind, np.floating):
        return random.normal(size=count).astype(kind)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, size=count, dtype=kind, endpoint=True)


def reference(op: int, data_type: int, parts: list[Array]) -> Array:
    """In rank order; 16-bit floats accumulate in float32 and round once."""
    combine = {SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum}[op]
    if data_type == FP16:
        return reduce(combine, [p.astype(np.float32) for p in parts]).astype(np.float16)
    if data_type == BFP16:
        return bf16_from_float(reduce(combine, [bf16_to_float(p) for p in parts]))
    return reduce(combine, parts)


def require_equal(found: Array, expected: Array, what: str) -> None:
    assert found.tobytes() == np.asarray(expected, found.dtype).tobytes(), (
        f"{what}: {found.ravel()[:8]} is not {np.ravel(expected)[:8]}"
    )
