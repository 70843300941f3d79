"""AsynchronousCompleteCumsum against numpy: integers exactly, floats against float64."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import BFLOAT16, Bits
from refusals import refused

NAME = "asynchronous_complete_cumsum", "AsynchronousCompleteCumsum"
INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
# One tile and its neighbours, the border to shared rows (8192), several tiles in a part.
SIZES = [0, 1, 2, 31, 4096, 4097, 8191, 8192, 8193, 20001, 500001]


def run(call, x, code=None):
    y = np.empty((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    call(*NAME, wrap(x), wrap(y))
    return y


def expected(x, dtype):
    zero = np.zeros((*x.shape[:-1], 1), dtype)
    return np.concatenate([zero, np.cumsum(x, axis=-1, dtype=dtype)], axis=-1)


def random_integers(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def test_golden_case_of_the_document(call):
    assert run(call, np.array([2, 3, 1, 4], np.int32)).tolist() == [0, 2, 5, 6, 10]


def test_overflow_wraps_around(call):
    x = np.array([2**31 - 1, 1, 5], np.int32)
    assert run(call, x).tolist() == [0, 2147483647, -2147483648, -2147483643]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact(call, dtype, size):
    x = random_integers(np.random.default_rng(size), size, dtype)
    assert (run(call, x) == expected(x, dtype)).all()


# Parts of 48 cores around what stays in the unified buffer: 24,328 int64, 48,656 int32, both cut to 512.
@pytest.mark.parametrize(
    ("dtype", "size"),
    [("int64", 48 * 24064), ("int64", 48 * 24064 + 1), ("int32", 48 * 48640), ("float32", 48 * 48640 + 1)],
)
def test_parts_that_stay_and_that_do_not(call, dtype, size):
    x = np.random.default_rng(size).integers(-3, 4, size).astype(dtype)
    assert (run(call, x) == expected(x, "int64")).all()


@pytest.mark.parametrize("size", [5, 8191, 8192, 70001])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_orders_and_core_counts(call, machine, dtype, size):
    rng = np.random.default_rng(size)
    x = rng.integers(-3, 4, size).astype(dtype)
    y = run(call, x)
    if dtype == "float16":
        # Half holds these sums exactly only up to 2048.
        assert np.abs(expected(x, "int64")).max() < 2048
    assert (y == expected(x, "int64")).all()


# Rows: fewer than cores and long (shared), short ones several to a tile, more rows than cores.
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 3), (1000, 7), (3, 20000), (60, 9000), (47, 8200), (1, 100000)])
@pytest.mark.parametrize("dtype", ["int64", "int8"])
def test_matrices_are_scanned_row_by_row(call, machine, shape, dtype):
    x = random_integers(np.random.default_rng(shape[0]), shape, dtype)
    y = run(call, x)
    assert y.shape == (shape[0], shape[1] + 1)
    assert (y == expected(x, dtype)).all()


@pytest.mark.parametrize("size", SIZES)
def test_float32_keeps_to_its_tolerance(call, size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    np.testing.assert_allclose(run(call, x), expected(x, np.float64), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_float16_sums_in_float32_and_rounds_once(call, size):
    x = np.random.default_rng(size).uniform(-1, 1, size).astype(np.float16)
    np.testing.assert_allclose(run(call, x), expected(x, np.float64), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("size", SIZES)
def test_bfloat16_sums_in_float32_and_rounds_once(call, size):
    bits = np.random.default_rng(size).uniform(-1, 1, size).astype(np.float32).view(np.uint32) >> 16
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    y = run(call, bits.astype(np.uint16), BFLOAT16)
    np.testing.assert_allclose(
        (y.astype(np.uint32) << 16).view(np.float32), expected(wide, np.float64), atol=1e-2, rtol=1e-2
    )


def test_infinities_and_nan(call):
    x = np.array([1, np.inf, 2, np.nan, 3], np.float32)
    np.testing.assert_array_equal(run(call, x), [0, 1, np.inf, np.inf, np.nan, np.nan])


def test_strided_input(call):
    x = np.arange(40, dtype=np.int32).reshape(4, 10)[:, ::3]
    assert (run(call, x) == expected(x, np.int32)).all()


@pytest.mark.parametrize("dtype", ["bool", "float64"])
def test_types_that_the_vector_core_does_not_have(call, dtype):
    with refused():
        run(call, np.ones(3, dtype))


@pytest.mark.parametrize("shape", [(), (1, 2, 3)])
def test_ranks(call, shape):
    with refused():
        call(*NAME, np.ones(shape, np.int32), np.ones(shape, np.int32))


def test_wrong_result_shape(call):
    with refused():
        call(*NAME, np.ones(4, np.int32), np.ones(4, np.int32))


@pytest.mark.emulated
def test_the_text_of_a_wrong_result_shape(call):
    with refused("expected .5."):
        call(*NAME, np.ones(4, np.int32), np.ones(4, np.int32))
