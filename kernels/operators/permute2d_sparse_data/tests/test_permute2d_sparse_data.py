"""Permute2dSparseData and Permute2dSparseDataGrad against NumPy: moves bit by bit, sums against float64."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import BFLOAT16, Bits
from data_faults import no_faults, told
from jagged_reference import random_values, same_bits
from permute_reference import Permutation as Case
from refusals import refused

FORWARD = "permute2d_sparse_data", "Permute2dSparseData"
GRAD = "permute2d_sparse_data", "Permute2dSparseDataGrad"
# Data types by (numpy storage, code of the tensor or None): every one that the operator declares.
TYPES = [("float32", None), ("float16", None), ("uint16", BFLOAT16), ("int8", None), ("int32", None), ("int64", None)]


def run(call, case, values, weights=None, out_len=None, code=None, sound=True):
    """sound: the kernel is asked for faults too, and finds none."""
    out_len = case.out_rows if out_len is None else out_len
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    lengths = np.empty((len(case.permute), *case.lengths.shape[1:]), case.lengths.dtype)
    out = np.empty((out_len, *values.shape[1:]), values.dtype)
    out_weights = np.empty((0,) if weights is None else (out_len, *weights.shape[1:]), np.float32)
    faults = no_faults() if sound else None
    call(
        *FORWARD,
        case.permute,
        case.lengths,
        wrap(values),
        weights,
        case.starts,
        case.out_starts,
        faults,
        out_len,
        lengths,
        wrap(out),
        out_weights,
        faults,
    )
    assert faults is None or not faults.any(), f"sound data is called wrong: {told(faults)}"
    return lengths, out, out_weights


def check(call, case, values, weights=None, code=None):
    lengths, out, out_weights = run(call, case, values, weights, code=code)
    assert same_bits(lengths, case.lengths[case.permute])
    assert same_bits(out, case.forward(values))
    assert weights is None or same_bits(out_weights, case.forward(weights))


def test_document_example(call):
    case = Case(np.random.default_rng(0), 1, 1, 1, 1)
    case.lengths, case.permute = np.array([[2], [3], [1], [4]]), np.array([3, 1, 0, 2])
    case.describe()
    got = run(call, case, np.arange(10, 101, 10), np.arange(1, 11, dtype=np.float32))
    assert got[0].ravel().tolist() == [4, 3, 2, 1]
    assert got[1].tolist() == [70, 80, 90, 100, 30, 40, 50, 10, 20, 60]
    assert got[2].tolist() == [7, 8, 9, 10, 3, 4, 5, 1, 2, 6]


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("lengths", ["int32", "int64"])
@pytest.mark.parametrize(("dtype", "code"), TYPES, ids=[f"{t}-{c}" for t, c in TYPES])
def test_every_type(call, dtype, code, index, lengths):
    rng = np.random.default_rng(2)
    case = Case(rng, 9, 5, 13, 7, index, lengths)
    check(call, case, random_values(rng, (case.rows, 3), dtype), random_values(rng, (case.rows,), "float32"), code)


# B: rows of lengths that the scalar unit collects (1, 3), that are moved (40), the border (8 int64, 64 bytes).
@pytest.mark.parametrize("batch", [1, 3, 7, 8, 40])
@pytest.mark.parametrize("copies", [0, 1, 30, 90])
def test_shapes_and_machines(call, machine, batch, copies):
    rng = np.random.default_rng(batch * 100 + copies)
    case = Case(rng, 31, batch, copies, 60 // batch + 1)
    weights = random_values(rng, (case.rows, 2), "float32")
    check(call, case, random_values(rng, (case.rows, 17), "float16"), weights)


def test_many_short_rows_of_lengths(call):
    rng = np.random.default_rng(3)
    case = Case(rng, 700, 3, 2500, 2, lengths="int32")  # several tiles of lengths on a core
    check(call, case, random_values(rng, (case.rows,), "int64"))


def test_one_huge_feature_is_shared_by_the_cores(call, machine):
    case = Case(np.random.default_rng(4), 3, 1, 3, 1)
    case.lengths, case.permute = np.array([[1], [90000], [5]]), np.array([1, 2, 1])
    check(call, case.describe(), np.arange(90006, dtype=np.int32))


@pytest.mark.parametrize("extra", [-7, 5])
def test_wrong_total_neither_overruns_nor_leaves_garbage(call, machine, extra):
    rng = np.random.default_rng(5)
    case = Case(rng, 8, 2, 8, 9)
    values = random_values(rng, (case.rows,), "int32")
    out = run(call, case, values, out_len=case.out_rows + extra, sound=False)[1]
    expected = np.concatenate([case.forward(values), np.zeros(max(extra, 0), np.int32)])[: case.out_rows + extra]
    assert same_bits(out, expected)


def test_entries_that_name_no_feature_give_zeros(call):
    case = Case(np.random.default_rng(6), 2, 1, 2, 1)
    case.lengths = np.array([[2], [3]])
    case.permute = np.array([1, 0, 1])
    case.describe()
    case.permute = np.array([1, 7, -1])
    lengths, out, _ = run(call, case, np.arange(1, 6), sound=False)
    assert lengths.ravel().tolist() == [3, 0, 0] and out.tolist() == [3, 4, 5, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("broken", [[0, 900, 3, 4], [-5, 2, 3, 9], [9, 3, 1, 0], [0, 2**40, -(2**40), 9]])
@pytest.mark.parametrize("which", ["starts", "out_starts"])
def test_wrong_offsets_are_memory_safe(call, machine, broken, which):
    case = Case(np.random.default_rng(7), 3, 1, 3, 1)
    case.lengths, case.permute = np.array([[2], [3], [4]]), np.array([2, 0, 1])
    case.describe()
    setattr(case, which, np.array(broken))
    case.out_rows = 9
    run(call, case, np.arange(9.0, dtype=np.float32), np.arange(9.0, dtype=np.float32), sound=False)
    grad(call, case, np.arange(9.0, dtype=np.float32)[:, None], total=9, sound=False)


def test_strided_arguments(call):
    rng = np.random.default_rng(8)
    case = Case(rng, 6, 4, 6, 5)
    values = random_values(rng, (3, case.rows), "float32").T[:, ::2]
    case.lengths = np.asfortranarray(case.lengths)
    check(call, case, values)


def test_empty(call):
    case = Case(np.random.default_rng(9), 3, 0, 4, 1)
    check(call, case, np.zeros((0, 2), np.float32))
    case = Case(np.random.default_rng(9), 3, 2, 4, 5)
    check(call, case, np.zeros((case.rows, 0), np.float32))


@pytest.mark.parametrize("fault", ["in_offsets", "out_offsets", "lengths", "values", "weights"])
def test_wrong_shapes(call, fault):
    case = Case(np.random.default_rng(10), 3, 2, 4, 5)
    weights = np.zeros(case.rows, np.float32)
    shapes = {"lengths": (4, 2), "values": (case.out_rows,), "weights": (case.out_rows,)}
    starts, out_starts = case.starts, case.out_starts
    if fault in shapes:
        shapes[fault] = (shapes[fault][0] + 1, *shapes[fault][1:])
    elif fault == "in_offsets":
        starts = starts[1:]
    else:
        out_starts = out_starts[1:]
    with refused():
        call(
            *FORWARD,
            case.permute,
            case.lengths,
            np.zeros(case.rows),
            weights,
            starts,
            out_starts,
            None,
            case.out_rows,
            np.zeros(shapes["lengths"], np.int64),
            np.zeros(shapes["values"]),
            np.zeros(shapes["weights"], np.float32),
            None,
        )


def grad(call, case, grad_out, code=None, total=None, sound=True):
    """sound: as in `run`."""
    wrap = (lambda a: a) if code is None else (lambda a: Bits(a, code))
    total = case.rows if total is None else total
    order = np.argsort(case.permute, kind="stable").astype(np.int64)
    out = np.empty((total, grad_out.shape[1]), grad_out.dtype)
    faults = no_faults() if sound else None
    call(
        *GRAD,
        wrap(grad_out),
        case.permute[order].astype(np.int64),
        order,
        case.starts,
        case.out_starts,
        faults,
        total,
        wrap(out),
        faults,
    )
    assert faults is None or not faults.any(), f"sound data is called wrong: {told(faults)}"
    return out


# 1 and 5: tails of every kind; 700: a feature's block is larger than a tile of sums.
@pytest.mark.parametrize("inner", [1, 5, 700])
@pytest.mark.parametrize("copies", [0, 3, 40])
def test_gradient_in_float32(call, machine, inner, copies):
    rng = np.random.default_rng(inner + copies)
    case = Case(rng, 11, 2, copies, 6)
    grad_out = rng.integers(-50, 50, (case.out_rows, inner)).astype(np.float32)
    assert (grad(call, case, grad_out) == case.backward(grad_out)).all()


def test_gradient_of_a_permutation_moves_bits(call):
    rng = np.random.default_rng(11)
    case = Case(rng, 20, 3, 20, 6)
    case.permute = rng.permutation(20)
    grad_out = random_values(rng, (case.describe().out_rows, 3), "float32")
    inverse = Case(rng, 20, 3, 20, 6)
    inverse.lengths, inverse.permute = case.lengths[case.permute], np.argsort(case.permute)
    assert same_bits(grad(call, case, grad_out), inverse.describe().forward(grad_out))


@pytest.mark.parametrize(("dtype", "code", "unit"), [("float16", None, 2**-11), ("uint16", BFLOAT16, 2**-8)])
def test_gradient_of_short_floats_is_rounded_once(call, dtype, code, unit):
    rng = np.random.default_rng(12)
    case = Case(rng, 7, 2, 60, 9)
    plain = rng.standard_normal((case.out_rows, 9)).astype(np.float32)
    if code is None:
        stored = plain.astype(np.float16)
        widen = lambda a: a.astype(np.float64)  # noqa: E731
    else:
        stored = (plain.view(np.uint32) >> 16).astype(np.uint16)
        widen = lambda a: (a.astype(np.uint32) << 16).view(np.float32).astype(np.float64)  # noqa: E731
    got = widen(grad(call, case, stored, code))
    np.testing.assert_allclose(got, case.backward(widen(stored)), rtol=unit, atol=1e-5)
