"""DenseToJagged against the recursive definition in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import Bits
from jagged_reference import TYPES, random_offsets, random_values, same_bits, to_jagged
from refusals import refused

NAME = "dense_to_jagged", "DenseToJagged"


def run(call, dense, offsets, total_len, code=None):
    values = np.empty((total_len, dense.shape[-1]), dense.dtype)
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    call(*NAME, wrap(dense), offsets, None, total_len, wrap(values), None)
    return values


@pytest.mark.parametrize("offset_type", ["int32", "int64"])
@pytest.mark.parametrize(("dtype", "code"), TYPES, ids=[f"{t}-{c}" for t, c in TYPES])
def test_every_type_is_copied_bit_by_bit(call, dtype, code, offset_type):
    rng = np.random.default_rng(2)
    offsets = random_offsets(rng, 9, 1, 12, offset_type)
    dense = random_values(rng, (9, 8, 7), dtype)
    total = int(offsets[-1][-1])
    assert same_bits(run(call, dense, offsets, total, code), to_jagged(dense, offsets, total))


@pytest.mark.parametrize("inner", [1, 3, 8, 15, 16, 17, 50, 64, 129, 300])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_inner_sizes(call, machine, inner, dtype):
    rng = np.random.default_rng(inner)
    offsets = random_offsets(rng, 33, 1, 40, "int64")
    dense = random_values(rng, (33, 30, inner), dtype)
    total = int(offsets[-1][-1])
    assert same_bits(run(call, dense, offsets, total), to_jagged(dense, offsets, total))


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("extra", [-3, 0, 4])
def test_nested_levels(call, machine, dims, extra):
    rng = np.random.default_rng(10 + dims)
    offsets = random_offsets(rng, 6, dims, 4, "int64")
    dense = random_values(rng, (6, *[3, 4, 2, 3, 4][:dims], 3), "int32")
    total = max(0, int(offsets[-1][-1]) + extra)
    assert same_bits(run(call, dense, offsets, total), to_jagged(dense, offsets, total))


def test_rows_longer_than_a_tile(call, machine):
    dense = np.arange(2 * 2 * 30000, dtype=np.float32).reshape(2, 2, 30000)
    offsets = [np.array([0, 1, 4])]
    assert same_bits(run(call, dense, offsets, 5), to_jagged(dense, offsets, 5))


def test_rows_before_the_first_offset_are_zero(call, machine):
    dense = np.ones((2, 3, 2), np.float32)
    offsets = [np.array([2, 3, 6])]
    assert same_bits(run(call, dense, offsets, 8), to_jagged(dense, offsets, 8))


def test_it_is_the_gradient_of_to_dense(call):
    # Truncated rows and rows outside the offsets get zero (docs/operators.md).
    grad = np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)
    offsets = [np.array([0, 3, 4])]
    expected = [[1, 2, 3], [4, 5, 6], [0, 0, 0], [7, 8, 9], [0, 0, 0]]
    assert run(call, grad, offsets, 5).tolist() == expected


def test_strided_dense(call):
    base = np.arange(2 * 8 * 6, dtype=np.float32).reshape(2, 8, 6)
    dense = base.transpose(0, 2, 1)[:, ::2]
    offsets = [np.array([0, 2, 5])]
    assert same_bits(run(call, dense, offsets, 5), to_jagged(dense, offsets, 5))


@pytest.mark.parametrize("offsets", [[0, 900, 3], [-5, 2, 3], [3, 1, 0], [0, 2**40, -(2**40)]])
@pytest.mark.parametrize("dims", [1, 2])
def test_wrong_offsets_are_memory_safe(call, machine, offsets, dims):
    levels = [np.array(offsets)] if dims == 1 else [np.array(offsets), np.array([0, 3, 1, 7])]
    run(call, np.ones((2, *[4] * dims, 5), np.float32), levels, 6)


@pytest.mark.parametrize(("shape", "total"), [((2, 3, 0), 4), ((2, 3, 5), 0)])
def test_empty_result(call, shape, total):
    assert run(call, np.zeros(shape, np.float32), [np.array([0, 2, 4])], total).size == 0


def test_empty_dense_gives_zeros(call):
    assert (run(call, np.zeros((2, 0, 5), np.float32), [np.array([0, 2, 4])], 4) == 0).all()


def test_no_batch_gives_zeros(call):
    assert (run(call, np.zeros((0, 3, 5), np.float32), [np.array([0])], 4) == 0).all()


@pytest.mark.parametrize("shape", [(3, 3, 2), (2, 3, 3)])
def test_wrong_dense_shape(call, shape):
    with refused():
        call(*NAME, np.zeros(shape, np.int32), [np.array([0, 1, 2])], None, 2, np.zeros((2, 2), np.int32), None)


def test_negative_total_len(call):
    with refused():
        call(*NAME, np.zeros((2, 3, 2), np.int32), [np.array([0, 1, 2])], None, -2, np.zeros((2, 2), np.int32), None)
