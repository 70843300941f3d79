"""NewOperator on the emulated cores, called through its C interface, against float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

Call = Callable[..., None]
NAME = "new_operator", "NewOperator"
TOLERANCE = {"float32": 2**-23, "float16": 2**-10}  # one rounding of the result

# one, a 32-byte block and around it, a core's least work and around it, several tiles, several cores
SIZES = [1, 7, 8, 9, 4095, 4096, 4097, 20001, 500003]


def run(call: Call, x: np.ndarray, factor: float) -> np.ndarray:
    y = np.empty_like(x)
    call(*NAME, x, float(factor), y)
    return y


def reference(x: np.ndarray, factor: float) -> np.ndarray:
    """The factor arrives as a float32."""
    return x.astype(np.float64) * np.float64(np.float32(factor))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("size", SIZES)
def test_sizes(call: Call, machine: None, size: int, dtype: str) -> None:
    x = np.random.default_rng(size).normal(size=size).astype(dtype)
    np.testing.assert_allclose(run(call, x, -1.7), reference(x, -1.7), rtol=TOLERANCE[dtype], atol=2**-24)


def test_shape_is_kept(call: Call) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    np.testing.assert_array_equal(run(call, x, 0.5), x / 2)


def test_special_values(call: Call) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(run(call, x, -2.0), x * -2)
