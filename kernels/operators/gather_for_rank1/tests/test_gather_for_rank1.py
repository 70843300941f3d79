"""GatherForRank1 against NumPy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import BFLOAT16, Bits
from jagged_reference import random_values, same_bits
from refusals import refused

NAME = "gather_for_rank1", "GatherForRank1"
TYPES = [("float32", None), ("float16", None), ("uint16", BFLOAT16), ("int32", None), ("int64", None)]


def run(call, x, index, code=None):
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    y = np.empty(index.shape, x.dtype)
    call(*NAME, wrap(x), index, wrap(y))
    return y


def test_golden(call):
    assert run(call, np.array([1.5, 2.5, 3.5], np.float32), np.array([2, 0, 2, 1])).tolist() == [3.5, 1.5, 3.5, 2.5]


# Few indices of a long x are fetched one by one (100 of 20 000), many are looked up in the unified buffer.
@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize(("dtype", "code"), TYPES, ids=[f"{t}-{c}" for t, c in TYPES])
@pytest.mark.parametrize(("length", "count"), [(333, 3000), (20000, 100)])
def test_every_type(call, dtype, code, index_type, length, count):
    rng = np.random.default_rng(length)
    x = random_values(rng, (length,), dtype)
    index = rng.integers(0, length, count).astype(index_type)
    assert same_bits(run(call, x, index, code), x[index])


# 1, 7, 8, 9: x and its zeros around the border of a 32-byte block; 12000 and 24577: the largest that fits, and more.
@pytest.mark.parametrize("length", [1, 7, 8, 9, 12000, 24577])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_sizes_and_machines(call, machine, length, dtype):
    rng = np.random.default_rng(length)
    x = random_values(rng, (length,), dtype)
    for count in (1, 255, 5001):
        index = rng.integers(0, length, count)
        assert same_bits(run(call, x, index), x[index])


@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize("length", [3, 8, 30000])
def test_indices_out_of_range_give_zero(call, machine, length, dtype, index_type):
    x = np.arange(1, length + 1).astype(dtype)
    limits = np.iinfo(index_type)
    bad = [-1, -2, length, length + 1, limits.min, limits.max, 2**31 - 1, -(2**31)]
    index = np.array([*bad, 0, length - 1], index_type)
    assert run(call, x, index).tolist() == [0] * len(bad) + [x[0], x[-1]]


def test_64_bit_indices_do_not_wrap_around(call):
    x = np.arange(1, 11, dtype=np.float32)
    assert run(call, x, np.array([2**32, 2**32 + 3, -(2**32), 4])).tolist() == [0, 0, 0, 5]


def test_index_of_any_shape_and_stride(call):
    x = np.arange(40, dtype=np.float32)[::2]
    index = np.arange(12).reshape(3, 4).T
    assert (run(call, x, index) == x[index]).all()


def test_empty(call):
    assert run(call, np.ones(3, np.float32), np.zeros(0, np.int64)).size == 0
    assert run(call, np.ones(0, np.float32), np.array([0, 1])).tolist() == [0, 0]


@pytest.mark.parametrize("x", [np.ones((2, 2), np.float32), np.ones(3, np.float64), np.ones(3, bool)])
def test_wrong_x(call, x):
    with refused():
        run(call, x, np.array([0]))
