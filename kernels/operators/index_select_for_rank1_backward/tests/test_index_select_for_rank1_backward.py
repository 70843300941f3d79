"""IndexSelectForRank1Backward against float64 sums."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from aclnn_host import BFLOAT16, Bits
from refusals import refused

NAME = "index_select_for_rank1_backward", "IndexSelectForRank1Backward"


def run(call, grad, length, index, *, is_sorted=False, code=None):
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    x = np.zeros(length, grad.dtype)
    grad_x, grad_index = np.empty_like(x), np.empty_like(index)
    call(*NAME, wrap(grad), wrap(x), index, ctypes.c_bool(is_sorted), wrap(grad_x), grad_index)
    assert not grad_index.any()
    return grad_x


def expected(grad, length, index):
    result = np.zeros(length)
    np.add.at(result, index.ravel(), grad.astype(np.float64).ravel())
    return result


def test_golden(call):
    grad = np.array([1, 2, 3, 4], np.float32)
    assert run(call, grad, 3, np.array([2, 0, 2, 1])).tolist() == [2, 4, 4]


# Short x and many entries: images; long x: slices. 24577: one more than an image holds.
@pytest.mark.parametrize(
    ("length", "count"), [(1, 0), (1, 20000), (33, 9001), (4000, 30000), (24577, 5000), (50001, 3000)]
)
@pytest.mark.parametrize("index_type", ["int32", "int64"])
def test_sums_are_exact_for_small_integers(call, machine, length, count, index_type):
    rng = np.random.default_rng(count)
    grad = rng.integers(-8, 9, count).astype(np.float32)
    index = rng.integers(0, length, count).astype(index_type)
    assert (run(call, grad, length, index) == expected(grad, length, index)).all()
    order = np.argsort(index, kind="stable")
    assert (run(call, grad[order], length, index[order], is_sorted=True) == expected(grad, length, index)).all()


@pytest.mark.parametrize(("length", "count"), [(300, 20000), (40000, 4000)])
def test_float32_keeps_to_its_tolerance(call, length, count):
    rng = np.random.default_rng(1)
    grad = rng.standard_normal(count).astype(np.float32)
    index = rng.zipf(1.3, count) % length
    got = run(call, grad, length, index)
    np.testing.assert_allclose(got, expected(grad, length, index), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("length", "count"), [(20, 9000), (30000, 9000)])
@pytest.mark.parametrize(("dtype", "code", "unit"), [("float16", None, 2**-11), ("uint16", BFLOAT16, 2**-8)])
def test_short_floats_are_added_in_float_and_rounded_once(call, machine, length, count, dtype, code, unit):
    rng = np.random.default_rng(2)
    index = rng.integers(0, 20, count)
    plain = rng.uniform(0, 1, count).astype(np.float32)
    if code is None:
        stored = plain.astype(np.float16)
        wide = stored.astype(np.float64)
        got = run(call, stored, length, index, code=code).astype(np.float64)
    else:
        stored = (plain.view(np.uint32) >> 16).astype(np.uint16)
        wide = (stored.astype(np.uint32) << 16).view(np.float32)
        got = (run(call, stored, length, index, code=code).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(got, expected(wide, length, index), rtol=unit + 1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [5, 30000])
def test_runs_are_equal_bit_by_bit(call, monkeypatch, length):
    rng = np.random.default_rng(3)
    grad = rng.standard_normal(20000).astype(np.float32)
    index = rng.integers(0, length, 20000)
    results = []
    for seed in ("1", "2", "3"):
        monkeypatch.setenv("TWIN_SEED", seed)
        results.append(run(call, grad, length, index).tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("length", [3, 30000])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_indices_out_of_range_are_ignored(call, machine, length, is_sorted):
    index = np.array([-(2**40), -1, 0, 1, length - 1, length, 2**40])
    grad = np.arange(1, 8, dtype=np.float32)
    got = run(call, grad, length, index, is_sorted=is_sorted)
    assert got[[0, 1, length - 1]].tolist() == [3, 4, 5] and got.sum() == 12


def test_an_index_that_is_not_sorted_as_said_is_memory_safe(call, machine):
    rng = np.random.default_rng(4)
    run(call, np.ones(5000, np.float32), 40000, rng.integers(-9, 50000, 5000), is_sorted=True)


def test_shapes_and_strides(call):
    grad = np.arange(12, dtype=np.float32).reshape(3, 4).T
    index = np.arange(12)[::-1].reshape(3, 4).T % 5
    assert (run(call, grad, 5, index) == expected(grad, 5, index)).all()


def test_nothing_to_add(call):
    assert (run(call, np.zeros(0, np.float32), 7, np.zeros(0, np.int64)) == 0).all()


@pytest.mark.parametrize("fault", ["x", "grad", "grad_x"])
def test_wrong_shapes(call, fault):
    x = np.zeros((2, 2) if fault == "x" else 4, np.float32)
    grad_x = np.zeros(5 if fault == "grad_x" else 4, np.float32)
    grad = np.zeros(4 if fault == "grad" else 3, np.float32)
    index = np.zeros(3, np.int64)
    with refused():
        call(*NAME, grad, x, index, ctypes.c_bool(False), grad_x, index.copy())
