"""BackwardCodegenAdagradUnweightedExact against float64: aggregation, optimizers, order, safety."""

from __future__ import annotations

from ctypes import c_double

import numpy as np
import pytest
from aclnn_host import BFLOAT16 as BFLOAT16_CODE
from aclnn_host import Bits
from embedding_reference import (
    BFLOAT16,
    FLOAT,
    HALF,
    MEAN,
    NONE,
    SUM,
    Optimizer,
    Tables,
    aggregate,
    from_storage,
    random_bags,
    to_storage,
    weight_gradient,
)
from refusals import refused

NAME = "backward_codegen_adagrad_unweighted_exact", "BackwardCodegenAdagradUnweightedExact"
TYPES = {"adagrad": 1, "adam": 2, "sgd": 3, "rowwise_adagrad": 4}
OPTIMIZERS = list(TYPES)


def tensor(stored, dtype):
    return Bits(stored, BFLOAT16_CODE) if dtype == BFLOAT16 else stored


def step(
    call,
    tables,
    optimizer,
    stored,
    m1,
    m2,
    grad,
    indices,
    offsets,
    pooling,
    dtype=FLOAT,
    grad_dtype=FLOAT,
    factors=None,
    wanted=None,
    mask=None,
    max_gradient=-1.0,
    iteration=1,
    rounding=None,
):
    """Updates `stored`, `m1`, `m2` in place; returns the gradient of `factors` if `wanted`.

    rounding: the seed; None: to nearest.
    """
    features = len(tables.features)
    placements = np.zeros(features, np.int32)
    state_offsets = optimizer.state_offsets(tables)
    has1, has2 = optimizer.name != "sgd", optimizer.name == "adam"
    out = np.full(len(indices) if wanted else 0, np.nan, np.float32)
    scalars = [
        optimizer.eps,
        optimizer.learning_rate,
        optimizer.beta1,
        optimizer.beta2,
        optimizer.weight_decay,
        optimizer.max_norm,
        max_gradient,
    ]
    weights = tensor(stored, dtype)
    call(
        *NAME,
        tensor(grad, grad_dtype),
        weights,
        None,
        None,
        placements,
        tables.weights_offsets,
        tables.d_offsets,
        tables.hash_size_cumsum,
        indices,
        offsets,
        None,
        m1 if has1 else None,
        None,
        placements if has1 else None,
        state_offsets if has1 else None,
        m2 if has2 else None,
        None,
        placements if has2 else None,
        tables.weights_offsets if has2 else None,
        None,
        None,
        None,
        None,
        factors,
        mask,
        max(tables.dims),
        0,
        pooling,
        0,
        0,
        0 if rounding is None else 1,
        0,
        0,
        0,
        0,
        TYPES[optimizer.name],
        iteration,
        *[c_double(s) for s in scalars],
        optimizer.weight_decay_mode,
        0,
        1 if wanted else 0,
        c_double(1 - optimizer.beta1),
        c_double(1 - optimizer.beta2),
        rounding or 0,
        out,
        m1 if has1 else None,
        m2 if has2 else None,
        weights,
    )
    return out


def check(
    call,
    tables,
    optimizer,
    pooling,
    batch=8,
    longest=6,
    hot=0.0,
    dtype=FLOAT,
    grad_dtype=FLOAT,
    weighted=False,
    max_gradient=None,
    steps=1,
    seed=0,
    tolerance=1e-5,
):
    rng = np.random.default_rng(seed)
    stored = to_storage(rng.uniform(-1, 1, tables.elements), dtype)
    expected = from_storage(stored, dtype)
    before = stored.copy()
    want1, want2 = optimizer.states(tables)
    m1, m2 = want1.astype(np.float32), want2.astype(np.float32)
    touched = np.zeros(tables.elements, bool)
    for iteration in range(1, steps + 1):
        indices, offsets = random_bags(rng, tables, batch, longest, hot)
        shape = (len(indices), max(tables.dims)) if pooling == NONE else (batch, int(tables.d_offsets[-1]))
        grad = to_storage(rng.uniform(-1, 1, shape), grad_dtype)
        factors = rng.uniform(-1, 1, len(indices)).astype(np.float32) if weighted else None
        gradients = aggregate(tables, from_storage(grad, grad_dtype), indices, offsets, pooling, factors, max_gradient)
        optimizer.apply(tables, expected, want1, want2, gradients, iteration)
        for (_, row), (t, _) in gradients.items():
            touched[tables.position(t, row)] = True
        step(
            call,
            tables,
            optimizer,
            stored,
            m1,
            m2,
            grad,
            indices,
            offsets,
            pooling,
            dtype,
            grad_dtype,
            factors,
            max_gradient=-1.0 if max_gradient is None else max_gradient,
            iteration=iteration,
        )
    np.testing.assert_allclose(from_storage(stored, dtype), expected, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(m1, want1, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(m2, want2, atol=1e-5, rtol=1e-5)
    assert stored[~touched].tobytes() == before[~touched].tobytes()
    return stored, m1, m2


GOLDEN = Tables([10], [4])
INDICES, OFFSETS = np.array([1, 3, 5, 1, 9]), np.array([0, 3, 5])
GRAD = np.array([[1, 1, 1, 1], [2, 2, 2, 2]], np.float32)


@pytest.mark.parametrize(
    ("name", "pooling", "first", "state"),
    [
        ("sgd", SUM, {1: 0.1, 3: 1.1, 9: 3.4}, {}),
        ("sgd", MEAN, {1: 0.26667, 3: 1.16667, 9: 3.5}, {}),
        ("adagrad", SUM, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 9, 3: 1, 5: 1, 9: 4}),
        ("adagrad", MEAN, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 1.777778, 3: 0.111111, 5: 0.111111, 9: 1}),
        ("rowwise_adagrad", SUM, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 9, 3: 1, 5: 1, 9: 4}),
        ("adam", SUM, {1: 0.3, 3: 1.1, 9: 3.5}, {1: 0.3, 3: 0.1, 5: 0.1, 9: 0.2}),
    ],
)
def test_golden_case(call, name, pooling, first, state):
    optimizer = Optimizer(name)
    weights = (np.arange(40) / 10).astype(np.float32)
    before = weights.copy()
    m1, m2 = (a.astype(np.float32) for a in optimizer.states(GOLDEN))
    step(call, GOLDEN, optimizer, weights, m1, m2, GRAD, INDICES, OFFSETS, pooling)
    for row, value in first.items():
        np.testing.assert_allclose(weights[4 * row : 4 * row + 4], value + np.arange(4) / 10, atol=1e-5)
    stride = 1 if name == "rowwise_adagrad" else 4
    for row, value in state.items():
        np.testing.assert_allclose(m1[stride * row], value, atol=1e-6)
    for row in (0, 2, 4, 6, 7, 8):
        assert (weights[4 * row : 4 * row + 4] == before[4 * row : 4 * row + 4]).all()
    if name == "adam":
        np.testing.assert_allclose(m2[[4, 36]], [0.009, 0.004], atol=1e-7)
        step(call, GOLDEN, optimizer, weights, m1, m2, -GRAD / 2, INDICES, OFFSETS, pooling, iteration=2)
        np.testing.assert_allclose(weights[4:8], [0.273366, 0.373366, 0.473366, 0.573366], atol=1e-6)
        np.testing.assert_allclose(weights[36:40], [3.473366, 3.573366, 3.673366, 3.773366], atol=1e-6)
        np.testing.assert_allclose([m1[4], m2[4], m1[36], m2[36]], [0.12, 0.011241, 0.08, 0.004996], atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("pooling", [SUM, MEAN, NONE])
def test_orders_and_core_counts(call, machine, name, pooling):
    dims = [8, 8, 8] if pooling == NONE else [8, 3, 20]
    tables = Tables([50, 300, 7], dims, [0, 1, 1, 2])
    check(call, tables, Optimizer(name, eps=1e-3), pooling, batch=20, longest=30, hot=0.3)


# Widths around the 32-byte block and the 16-lane pitch; 2100 and 5000 columns are more than a tile.
@pytest.mark.parametrize("width", [1, 3, 8, 9, 16, 17, 64, 128, 2100, 5000])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_widths(call, name, width):
    check(call, Tables([11], [width]), Optimizer(name, eps=1e-3), SUM, batch=3, longest=9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps(call, name):
    tables = Tables([30, 5], [8, 4], [0, 1, 0])
    optimizer = Optimizer(name, eps=1e-3, learning_rate=0.05)
    check(call, tables, optimizer, SUM, batch=6, longest=7, hot=0.4, steps=20, tolerance=2e-6)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, BFLOAT16])
@pytest.mark.parametrize("grad_dtype", [FLOAT, HALF, BFLOAT16])
def test_types(call, dtype, grad_dtype):
    tolerance = {FLOAT: 1e-5, HALF: 5e-4 + 1e-5, BFLOAT16: 4e-3 + 1e-5}[dtype]  # one rounding of the updated row
    for name in OPTIMIZERS:
        optimizer = Optimizer(name, eps=1e-3)
        check(call, Tables([9, 6], [17, 17]), optimizer, MEAN, dtype=dtype, grad_dtype=grad_dtype, tolerance=tolerance)


def test_hot_row_over_many_blocks(call, machine):
    # 128 contributions make a block of sums: row 0 gets more than 20 blocks, from several cores.
    for name in ("adagrad", "rowwise_adagrad"):
        check(call, Tables([1000], [5]), Optimizer(name, eps=1e-3), SUM, batch=60, longest=120, hot=0.9, tolerance=1e-4)


@pytest.mark.parametrize("count", [1, 127, 128, 129, 256, 257, 400])
def test_all_indices_equal(call, count):
    tables = Tables([3], [4])
    weights = np.zeros(12, np.float32)
    grad = np.random.default_rng(count).integers(-3, 4, (count, 4)).astype(np.float32)
    empty = np.zeros(0, np.float32)
    offsets = np.arange(count + 1)
    step(
        call,
        tables,
        Optimizer("sgd", learning_rate=1.0),
        weights,
        empty,
        empty,
        grad,
        np.ones(count, np.int64),
        offsets,
        SUM,
    )
    np.testing.assert_array_equal(weights.reshape(3, 4)[1], -grad.sum(0))
    assert (weights.reshape(3, 4)[[0, 2]] == 0).all()


def test_results_do_not_depend_on_the_machine(call, monkeypatch):
    results = []
    for seed, cores in [(1, 1), (2, 3), (3, 20), (4, 48)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", str(seed))
        tables = Tables([40, 9], [6, 6], [0, 0, 1])
        arrays = check(call, tables, Optimizer("adam"), MEAN, batch=40, longest=30, hot=0.5, steps=2)
        results.append(b"".join(a.tobytes() for a in arrays))
    assert len(set(results)) == 1


@pytest.mark.parametrize("mode", [0, 1, 2, 5])
@pytest.mark.parametrize("max_norm", [0.0, 0.8])
def test_decay_and_norm_of_rowwise_adagrad(call, mode, max_norm):
    optimizer = Optimizer("rowwise_adagrad", eps=1e-3, weight_decay=0.05, weight_decay_mode=mode, max_norm=max_norm)
    check(call, Tables([20], [10]), optimizer, SUM, steps=3)


# Rows wider than a tile: mean and norm are sums over tiles, for rows in one block of 128 and over several alike.
@pytest.mark.parametrize("dtype", [FLOAT, BFLOAT16])
@pytest.mark.parametrize(("mode", "max_norm"), [(0, 0.0), (1, 2.0), (2, 2.0)])
def test_wide_rows_of_rowwise_adagrad(call, machine, mode, max_norm, dtype):
    optimizer = Optimizer("rowwise_adagrad", eps=1e-3, weight_decay=0.05, weight_decay_mode=mode, max_norm=max_norm)
    tolerance = {FLOAT: 2e-5, BFLOAT16: 4e-3 + 2e-5}[dtype]
    tables = Tables([9, 4], [4099, 40], [0, 1, 0])
    check(call, tables, optimizer, SUM, batch=20, longest=20, hot=0.7, dtype=dtype, tolerance=tolerance)


def test_decay_of_adam(call):
    check(call, Tables([20], [10]), Optimizer("adam", weight_decay=0.05), SUM, steps=3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_clipping_and_weights(call, name):
    optimizer = Optimizer(name, eps=1e-3)
    check(call, Tables([20, 4], [10, 3]), optimizer, SUM, max_gradient=0.3)
    check(call, Tables([20, 4], [10, 3]), optimizer, MEAN, weighted=True)


# 7001 columns: more than one tile.
@pytest.mark.parametrize("width", [1, 8, 13, 64, 7001])
@pytest.mark.parametrize("pooling", [SUM, MEAN])
def test_gradient_of_the_weights(call, pooling, width):
    rng = np.random.default_rng(width)
    tables = Tables([12, 4], [width, 5], [0, 1])
    indices, offsets = random_bags(rng, tables, 12, 25, 0.5)
    weights = rng.uniform(-1, 1, tables.elements).astype(np.float32)
    grad = rng.uniform(-1, 1, (12, width + 5)).astype(np.float32)
    factors = rng.uniform(-1, 1, len(indices)).astype(np.float32)
    expected = weight_gradient(tables, weights, grad, indices, offsets, pooling)
    updated = weights.astype(np.float64)
    optimizer = Optimizer("sgd")
    optimizer.apply(
        tables, updated, np.zeros(0), np.zeros(0), aggregate(tables, grad, indices, offsets, pooling, factors)
    )
    empty = np.zeros(0, np.float32)
    arguments = tables, optimizer, weights, empty, empty, grad, indices, offsets, pooling
    out = step(call, *arguments, factors=factors, wanted=True)
    np.testing.assert_allclose(out, expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(weights, updated, atol=1e-5, rtol=1e-5)
    masked = step(call, *arguments, factors=factors, wanted=True, mask=np.array([0, 1], np.int32))
    first = int(offsets[12])
    assert (masked[:first] == 0).all() and (masked[first:] != 0).any()


@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize("offset_type", ["int32", "int64"])
def test_integer_types_may_differ(call, index_type, offset_type):
    weights = (np.arange(40) / 10).astype(np.float32)
    empty = np.zeros(0, np.float32)
    step(
        call,
        GOLDEN,
        Optimizer("sgd"),
        weights,
        empty,
        empty,
        GRAD,
        INDICES.astype(index_type),
        OFFSETS.astype(offset_type),
        SUM,
    )
    np.testing.assert_allclose(weights[4:8], [0.1, 0.2, 0.3, 0.4], atol=1e-6)


def test_many_rows_take_several_passes(call, machine):
    # 70 000 rows: 17 bits, three passes of the sort; features of different tables, some rows twice.
    rng = np.random.default_rng(5)
    tables = Tables([70000, 3], [1, 2])
    indices = np.concatenate([rng.integers(0, 70000, 3000), rng.integers(0, 3, 3000)])
    offsets = np.arange(0, 6001, 1500)
    weights, empty = np.zeros(tables.elements, np.float32), np.zeros(0, np.float32)
    grad = rng.integers(-2, 3, (2, 3)).astype(np.float32)
    expected = np.zeros(tables.elements)
    optimizer = Optimizer("sgd", learning_rate=1.0)
    optimizer.apply(tables, expected, empty, empty, aggregate(tables, grad, indices, offsets, SUM))
    step(call, tables, optimizer, weights, empty, empty, grad, indices, offsets, SUM)
    np.testing.assert_array_equal(weights, expected)


def test_indices_outside_the_table_update_nothing(call, machine):
    tables = Tables([4, 5], [3, 3])
    indices = np.array([3, 4, -1, 2**40, 4, 5, -(2**62)])
    offsets = np.array([0, 3, 4, 6, 7])
    grad = np.ones((2, 6), np.float32)
    for name in OPTIMIZERS:
        optimizer = Optimizer(name)
        weights = np.zeros(27, np.float32)
        m1, m2 = (a.astype(np.float32) for a in optimizer.states(tables))
        expected, (want1, want2) = weights.astype(np.float64), optimizer.states(tables)
        optimizer.apply(tables, expected, want1, want2, aggregate(tables, grad, indices, offsets, SUM))
        step(call, tables, optimizer, weights, m1, m2, grad, indices, offsets, SUM)
        np.testing.assert_allclose(weights, expected, atol=1e-6)
        np.testing.assert_allclose(m1, want1, atol=1e-6)


# Memory stays safe whatever offsets and the tables' description say.
@pytest.mark.parametrize("offsets", [[0, 900, 3, 2, 4], [-5, 2, 3, 3, 4], [4, 1, 0, 9, 2], [0, 2**40, -(2**40), 1, 1]])
@pytest.mark.parametrize("pooling", [SUM, MEAN, NONE])
def test_wrong_offsets_are_memory_safe(call, machine, pooling, offsets):
    tables = Tables([4, 4], [3, 3])
    grad = np.ones((4, 3) if pooling == NONE else (2, 6), np.float32)
    m1, m2 = np.zeros(24, np.float32), np.zeros(24, np.float32)
    step(
        call,
        tables,
        Optimizer("adam"),
        np.ones(24, np.float32),
        m1,
        m2,
        grad,
        np.array([0, 1, 2, 3]),
        np.array(offsets),
        pooling,
    )


def test_states_that_are_too_small_are_memory_safe(call):
    tables = Tables([4, 4], [3, 3])
    weights, m1 = np.ones(24, np.float32), np.zeros(12, np.float32)
    step(
        call,
        tables,
        Optimizer("adagrad"),
        weights,
        m1,
        np.zeros(0, np.float32),
        np.ones((2, 6), np.float32),
        np.array([0, 1, 2, 3]),
        np.array([0, 1, 2, 3, 4]),
        SUM,
    )
    assert (weights[:6] != 1).all() and (weights[12:] == 1).all()


def test_no_indices_changes_nothing(call):
    weights = np.ones(40, np.float32)
    m1 = np.ones(40, np.float32)
    step(
        call,
        GOLDEN,
        Optimizer("adagrad"),
        weights,
        m1,
        np.zeros(0, np.float32),
        GRAD,
        np.zeros(0, np.int64),
        np.zeros(3, np.int64),
        SUM,
    )
    assert (weights == 1).all() and (m1 == 1).all()


@pytest.mark.parametrize(
    ("pooling", "iteration", "shape"), [(3, 1, (2, 4)), (SUM, 0, (2, 4)), (SUM, 1, (3, 4)), (SUM, 1, (2, 3))]
)
def test_wrong_arguments(call, pooling, iteration, shape):
    m = np.zeros(40, np.float32)
    with refused():
        step(
            call,
            GOLDEN,
            Optimizer("adam"),
            np.ones(40, np.float32),
            m,
            m.copy(),
            np.ones(shape, np.float32),
            INDICES,
            OFFSETS,
            pooling,
            iteration=iteration,
        )
