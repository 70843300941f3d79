"""SplitEmbeddingCodegenForwardUnweighted against float64."""

from __future__ import annotations

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
    TOLERANCE,
    Tables,
    forward,
    from_storage,
    random_bags,
    to_storage,
)
from refusals import refused

NAME = "split_embedding_codegen_forward_unweighted", "SplitEmbeddingCodegenForwardUnweighted"
OUTPUT_CODES = {FLOAT: 0, HALF: 1, BFLOAT16: 5}


def tensor(stored, dtype):
    return Bits(stored, BFLOAT16_CODE) if dtype == BFLOAT16 else stored


def run(call, tables, stored, indices, offsets, pooling, factors=None, dtype=FLOAT, out_dtype=FLOAT, d_offsets=None):
    batch = (len(offsets) - 1) // len(tables.features)
    width = max(tables.dims) if pooling == NONE else int(tables.d_offsets[-1])
    rows = len(indices) if pooling == NONE else batch
    out = np.empty((rows, width), np.uint16 if out_dtype == BFLOAT16 else out_dtype)
    call(
        *NAME,
        tensor(stored, dtype),
        None,
        None,
        np.zeros(len(tables.features), np.int32),
        tables.weights_offsets,
        tables.d_offsets if d_offsets is None else d_offsets,
        indices,
        offsets,
        None,
        None,
        None,
        factors,
        None,
        width,
        max(tables.dims),
        pooling,
        OUTPUT_CODES[out_dtype],
        0,
        0,
        tensor(out, out_dtype),
        None,
    )
    return from_storage(out, out_dtype)


def check(call, tables, batch, longest, pooling, dtype=FLOAT, out_dtype=FLOAT, weighted=False, seed=0, hot=0.0):
    rng = np.random.default_rng(seed)
    indices, offsets = random_bags(rng, tables, batch, longest, hot)
    stored = to_storage(rng.uniform(-1, 1, tables.elements), dtype)
    factors = rng.uniform(-1, 1, len(indices)).astype(np.float32) if weighted else None
    out = run(call, tables, stored, indices, offsets, pooling, factors, dtype, out_dtype)
    tolerance = max(TOLERANCE[FLOAT], TOLERANCE[out_dtype] if out_dtype != FLOAT else 0)
    expected = forward(tables, from_storage(stored, dtype), indices, offsets, pooling, factors)
    np.testing.assert_allclose(out, expected, atol=tolerance, rtol=tolerance)


GOLDEN = Tables([10], [4])
GOLDEN_WEIGHTS = (np.arange(40) / 10).astype(np.float32)
GOLDEN_INDICES = np.array([1, 3, 5, 1, 9])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (SUM, [[3.6, 3.9, 4.2, 4.5], [4.0, 4.2, 4.4, 4.6]]),
        (MEAN, [[1.2, 1.3, 1.4, 1.5], [2.0, 2.1, 2.2, 2.3]]),
        (
            NONE,
            [
                [0.4, 0.5, 0.6, 0.7],
                [1.2, 1.3, 1.4, 1.5],
                [2, 2.1, 2.2, 2.3],
                [0.4, 0.5, 0.6, 0.7],
                [3.6, 3.7, 3.8, 3.9],
            ],
        ),
    ],
)
def test_golden_case(call, pooling, expected):
    out = run(call, GOLDEN, GOLDEN_WEIGHTS, GOLDEN_INDICES, np.array([0, 3, 5]), pooling)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


# Widths around the 32-byte block and the 16-lane pitch, one above the tile of 2048 columns.
@pytest.mark.parametrize("width", [1, 3, 8, 15, 16, 17, 64, 128, 2100])
@pytest.mark.parametrize("pooling", [SUM, MEAN, NONE])
def test_widths(call, pooling, width):
    check(call, Tables([11], [width]), 7, 9, pooling)


@pytest.mark.parametrize("pooling", [SUM, MEAN, NONE])
def test_orders_and_core_counts(call, machine, pooling):
    dims = [8, 8, 8] if pooling == NONE else [8, 3, 20]
    tables = Tables([5, 40, 7], dims, [0, 1, 1, 2] if pooling != NONE else [0, 1, 2])
    check(call, tables, 13, 40, pooling, weighted=pooling != NONE, hot=0.3)


@pytest.mark.parametrize("out_dtype", [FLOAT, HALF, BFLOAT16])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, BFLOAT16])
def test_types(call, dtype, out_dtype):
    for pooling, width in [(SUM, 17), (MEAN, 3), (NONE, 17)]:
        check(call, Tables([9, 6], [width, width]), 6, 5, pooling, dtype, out_dtype)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, BFLOAT16])
def test_rows_are_copied_bit_by_bit(call, dtype):
    bits = np.random.default_rng(1).integers(0, 2**32, 4 * 5, dtype=np.uint32)
    stored = bits.view(np.float32) if dtype == FLOAT else bits.astype(np.uint16)
    stored = stored.view(np.float16) if dtype == HALF else stored
    out = np.empty((3, 5), stored.dtype)
    tables = Tables([4], [5])
    call(
        *NAME,
        tensor(stored, dtype),
        None,
        None,
        np.zeros(1, np.int32),
        tables.weights_offsets,
        tables.d_offsets,
        np.array([3, 0, 3]),
        np.array([0, 2, 3]),
        None,
        None,
        None,
        None,
        None,
        5,
        5,
        NONE,
        OUTPUT_CODES[dtype],
        0,
        0,
        tensor(out, dtype),
        None,
    )
    assert out.tobytes() == stored.reshape(4, 5)[[3, 0, 3]].tobytes()


@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize("offset_type", ["int32", "int64"])
def test_integer_types_may_differ(call, index_type, offset_type):
    indices = GOLDEN_INDICES.astype(index_type)
    out = run(call, GOLDEN, GOLDEN_WEIGHTS, indices, np.array([0, 3, 5], offset_type), SUM)
    np.testing.assert_allclose(out, [[3.6, 3.9, 4.2, 4.5], [4.0, 4.2, 4.4, 4.6]], rtol=1e-6)


def test_long_bags_and_many_indices(call):
    # 3000 indices: more than one stretch of loaded indices, one bag over all cores' shares.
    check(call, Tables([50, 3], [8, 8]), 3, 1500, SUM, weighted=True, hot=0.5)
    check(call, Tables([50, 3], [8, 8]), 3, 1500, NONE)


def test_no_indices_gives_zeros(call):
    tables = Tables([4, 2], [3, 5])
    out = run(call, tables, np.ones(22, np.float32), np.zeros(0, np.int64), np.zeros(7, np.int64), MEAN)
    assert out.shape == (3, 8) and (out == 0).all()


@pytest.mark.parametrize("pooling", [SUM, NONE])
def test_indices_outside_the_table_contribute_nothing(call, machine, pooling):
    tables = Tables([4, 5], [3, 3])
    indices = np.array([3, 4, -1, 2**40, 4, 5, -(2**62)])
    offsets = np.array([0, 3, 4, 6, 7])
    weights = np.arange(27).astype(np.float32)
    out = run(call, tables, weights, indices, offsets, pooling)
    np.testing.assert_array_equal(out, forward(tables, weights, indices, offsets, pooling))


# Memory stays safe whatever offsets say; the values of the result are not promised.
@pytest.mark.parametrize("offsets", [[0, 900, 3, 2, 4], [-5, 2, 3, 3, 4], [4, 1, 0, 9, 2], [0, 2**40, -(2**40), 1, 1]])
@pytest.mark.parametrize("pooling", [SUM, NONE])
def test_wrong_offsets_are_memory_safe(call, machine, pooling, offsets):
    run(call, Tables([4, 4], [3, 3]), np.ones(24, np.float32), np.array([0, 1, 2, 3]), np.array(offsets), pooling)


@pytest.mark.parametrize("offsets", [[0, 1, 2, 2], [0, 0, 1, 1, 2, 2]])
def test_offsets_must_fit_the_features(call, offsets):
    with refused():
        run(call, Tables([4, 4], [3, 3]), np.ones(24, np.float32), np.array([0, 1]), np.array(offsets), SUM)


def test_unknown_pooling(call):
    with refused():
        run(call, GOLDEN, GOLDEN_WEIGHTS, GOLDEN_INDICES, np.array([0, 3, 5]), 3)
