"""JaggedToPaddedDense against the recursive definition in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import Bits, Ints
from jagged_reference import TYPES, bits_of, random_offsets, random_values, same_bits, to_dense
from refusals import refused

NAME = "jagged_to_padded_dense", "JaggedToPaddedDense"


def run(call, values, offsets, max_lengths, padding_bits=0, code=None):
    dense = np.empty((len(offsets[0]) - 1, *max_lengths, values.shape[1]), values.dtype)
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    call(*NAME, wrap(values), offsets, None, Ints(max_lengths), padding_bits, wrap(dense), None)
    return dense


@pytest.mark.parametrize("offset_type", ["int32", "int64"])
@pytest.mark.parametrize(("dtype", "code"), TYPES, ids=[f"{t}-{c}" for t, c in TYPES])
def test_every_type_is_copied_bit_by_bit(call, dtype, code, offset_type):
    rng = np.random.default_rng(1)
    offsets = random_offsets(rng, 9, 1, 12, offset_type)
    values = random_values(rng, (int(offsets[-1][-1]), 7), dtype)
    padding = random_values(rng, (1,), dtype)[0]
    dense = run(call, values, offsets, [8], bits_of(padding, dtype), code)
    assert same_bits(dense, to_dense(values, offsets, [8], padding))


# Inner sizes around the 32-byte block and the 512-byte line; 1 and 3 give rows of 2 and 6 bytes in half.
@pytest.mark.parametrize("inner", [1, 3, 8, 15, 16, 17, 50, 64, 129, 300])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_inner_sizes(call, machine, inner, dtype):
    rng = np.random.default_rng(inner)
    offsets = random_offsets(rng, 33, 1, 40, "int64")
    values = random_values(rng, (int(offsets[-1][-1]), inner), dtype)
    dense = run(call, values, offsets, [30], bits_of(-1.5, dtype))
    assert same_bits(dense, to_dense(values, offsets, [30], np.array(-1.5, dtype)))


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 5])
def test_nested_levels(call, machine, dims):
    rng = np.random.default_rng(dims)
    offsets = random_offsets(rng, 5, dims, 4, "int64")
    values = random_values(rng, (int(offsets[-1][-1]), 3), "int32")
    max_lengths = [3, 4, 2, 3, 4][:dims]
    dense = run(call, values, offsets, max_lengths, 77)
    assert same_bits(dense, to_dense(values, offsets, max_lengths, 77))


def test_rows_longer_than_a_tile(call, machine):
    # 30000 floats in a row: more than one copy buffer; the padding is longer than the fill block too.
    values = np.arange(3 * 30000, dtype=np.float32).reshape(3, 30000)
    offsets = [np.array([0, 2, 2, 3])]
    dense = run(call, values, offsets, [4], bits_of(np.float32(2.5), "float32"))
    assert same_bits(dense, to_dense(values, offsets, [4], np.float32(2.5)))


def test_eight_byte_padding_with_different_halves(call):
    dense = run(call, np.zeros((0, 5)), [np.array([0, 0, 0])], [100], bits_of(0.1, "float64"))
    assert (dense == 0.1).all()


def test_strided_values(call):
    base = np.arange(80, dtype=np.float32).reshape(8, 10)
    values = base[::2, 1:7]
    offsets = [np.array([0, 1, 4])]
    assert same_bits(run(call, values, offsets, [3]), to_dense(values, offsets, [3], np.float32(0)))


def test_strided_result(call):
    values = np.arange(12, dtype=np.int32).reshape(4, 3)
    offsets = [np.array([0, 1, 4], dtype=np.int32)]
    room = np.full((2, 3, 6), -9, np.int32)
    call(*NAME, values, offsets, None, Ints([3]), 5, room[:, :, ::2], None)
    assert same_bits(np.ascontiguousarray(room[:, :, ::2]), to_dense(values, offsets, [3], 5))
    assert (room[:, :, 1::2] == -9).all()


# Operators.md 2.8.
@pytest.mark.parametrize(
    ("values", "lengths", "longest", "padding", "expected"),
    [
        ([[1], [2], [3]], [1, 2], 2, 0, [[[1], [0]], [[2], [3]]]),
        ([[1], [2], [3]], [3], 2, 0, [[[1], [2]]]),
        ([[1], [2]], [0, 2], 3, 7, [[[7], [7], [7]], [[1], [2], [7]]]),
    ],
)
def test_by_hand(call, values, lengths, longest, padding, expected):
    offsets = [np.concatenate([[0], np.cumsum(lengths)])]
    assert run(call, np.array(values), offsets, [longest], padding).tolist() == expected


def test_rows_before_the_first_offset_are_ignored(call):
    values = np.arange(10, dtype=np.int64).reshape(5, 2)
    offsets = [np.array([2, 3, 5])]
    assert same_bits(run(call, values, offsets, [2]), to_dense(values, offsets, [2], 0))


# The kernel must stay inside its tensors whatever the offsets say; the values of the result are not promised.
@pytest.mark.parametrize("offsets", [[0, 900, 3], [-5, 2, 3], [3, 1, 0], [0, 2**40, -(2**40)]])
def test_wrong_offsets_are_memory_safe(call, machine, offsets):
    values = np.ones((3, 5), np.float32)
    run(call, values, [np.array(offsets)], [4])


@pytest.mark.parametrize(("batch", "longest", "inner"), [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_empty_result(call, batch, longest, inner):
    offsets = [np.zeros(batch + 1, np.int64)]
    assert run(call, np.zeros((0, inner), np.float32), offsets, [longest]).size == 0


@pytest.mark.parametrize(
    ("shape", "max_lengths"), [((2, 3, 2), [4]), ((3, 3, 2), [3]), ((2, 3, 3), [3]), ((2, 3, 2), [3, 1])]
)
def test_wrong_result_shape(call, shape, max_lengths):
    with refused():
        arguments = [np.zeros((2, 2), np.int32), [np.array([0, 1, 2])], None, Ints(max_lengths), 0]
        call(*NAME, *arguments, np.zeros(shape, np.int32), None)


def test_types_outside_the_table(call):
    with refused():
        run(call, np.zeros((2, 2), np.int32), [np.array([0, 1, 2], np.int16)], [2])


def test_missing_offsets(call):
    with refused():
        call(*NAME, np.zeros((2, 2), np.int32), None, None, Ints([2]), 0, np.zeros((1, 2, 2), np.int32), None)


@pytest.mark.emulated
def test_texts_of_refusals(call):
    with refused("161002.*combination"):
        run(call, np.zeros((2, 2), np.int32), [np.array([0, 1, 2], np.int16)], [2])
    with refused("161001.*offsets is null"):
        call(*NAME, np.zeros((2, 2), np.int32), None, None, Ints([2]), 0, np.zeros((1, 2, 2), np.int32), None)
