"""Stochastic rounding of the updated rows: bit by bit, and against float64."""

from __future__ import annotations

import numpy as np
import pytest
from embedding_reference import BFLOAT16, HALF, SUM, Optimizer, Tables, aggregate, from_storage, random_bags, to_storage
from test_backward_codegen_adagrad_unweighted_exact import OPTIMIZERS, step

SPACING_BITS = {HALF: 10, BFLOAT16: 7}
LOWEST = {HALF: 2.0**-14, BFLOAT16: 2.0**-126}
WORDS = np.uint64
EMPTY = np.zeros(0, np.float32)


def scrambled(x):
    x = (x ^ (x >> WORDS(30))) * WORDS(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> WORDS(27))) * WORDS(0x94D049BB133111EB)
    return x ^ (x >> WORDS(31))


def word(seed, numbers):
    golden = WORDS(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        return scrambled(scrambled(np.array([seed], WORDS) + golden) ^ (numbers.astype(WORDS) + golden))


def drawn(seed, starts, width):
    """(rows, width) numbers below 2^16: kernels/row_math/rounding_draws.h, in 64-bit integers."""
    rows, columns = word(seed, starts)[:, None], word(~WORDS(seed), np.arange(width))[None, :]
    product = (rows & WORDS(0x7FFF)) * (columns & WORDS(0x7FFF)) >> WORDS(10)
    term, last = ((rows >> WORDS(at) & WORDS(0xFFFF)) + (columns >> WORDS(at) & WORDS(0xFFFF)) for at in (16, 32))
    hashed = (product + term) % WORDS(2**15)
    return ((last + (hashed * hashed >> WORDS(7))) % WORDS(2**16)).astype(np.int64)


def spacing(values, dtype):
    """Of the numbers around values, that of the lesser magnitude."""
    _, exponent = np.frexp(np.abs(values))
    power = np.maximum(2.0 ** (exponent - 1), LOWEST[dtype])
    return power * 2.0 ** -SPACING_BITS[dtype]


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16])
@pytest.mark.parametrize("width", [1, 17, 64, 2100])
def test_every_bit(call, dtype, width, monkeypatch):
    """From zero by SGD of rate 1: the row is the gradient, rounded by what is drawn; on any number of cores."""
    rng = np.random.default_rng(width)
    rows = 40 if width < 2000 else 3
    tables = Tables([5, rows], [width, width], [1, 0])
    values = (rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-8, 5, (rows, width))).astype(np.float32)
    values[0, 0] = 0.0
    grad = np.concatenate([-values, np.zeros((rows, width), np.float32)], axis=1)
    offsets = np.concatenate([np.arange(rows), np.full(rows + 1, rows)])
    seed = 0x9123456789ABCDEF
    parts = drawn(seed, 5 * width + np.arange(rows) * width, width) / 2**16
    exact = values.astype(np.float64)
    step_size = spacing(exact, dtype)
    lost = {HALF: 13, BFLOAT16: 16}[dtype]
    parts = np.floor(parts * 2**lost) / 2**lost
    cut = np.floor(np.abs(exact) / step_size + parts) * step_size
    expected = np.copysign(cut, exact)
    results = []
    for cores in (1, 3):
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", str(cores))
        stored = to_storage(np.zeros(tables.elements), dtype)
        optimizer = Optimizer("sgd", learning_rate=1.0)
        signed = seed - 2**64
        step(call, tables, optimizer, stored, EMPTY, EMPTY, grad, np.arange(rows), offsets, SUM, dtype, rounding=signed)
        results.append(stored.tobytes())
        got = from_storage(stored, dtype)
        assert (got[: 5 * width] == 0).all()
        finite = cut <= (65504 if dtype == HALF else np.inf)
        np.testing.assert_array_equal(got[5 * width :].reshape(rows, width)[finite], expected[finite])
        assert finite.mean() > 0.95
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16])
@pytest.mark.parametrize("name", OPTIMIZERS)
# 2,500 columns are more than a tile; hot rows reach over blocks of 128 contributions.
@pytest.mark.parametrize(("dims", "batch", "hot"), [([67, 30], 150, 0.0), ([8, 8], 60, 0.8), ([2500, 40], 4, 0.3)])
def test_right_on_average(call, machine, name, dtype, dims, batch, hot):
    rng = np.random.default_rng(7)
    tables = Tables([300, 200], dims)
    optimizer = Optimizer(name, learning_rate=0.01, weight_decay=0.1 if name == "adam" else 0.0)
    indices, offsets = random_bags(rng, tables, batch, 7, hot)
    stored = to_storage(rng.uniform(-1, 1, tables.elements), dtype)
    exact, before = from_storage(stored, dtype), stored.copy()
    want1, want2 = optimizer.states(tables)
    m1, m2 = want1.astype(np.float32), want2.astype(np.float32)
    grad = rng.uniform(-1, 1, (batch, sum(dims))).astype(np.float32)
    gradients = aggregate(tables, grad, indices, offsets, SUM)
    optimizer.apply(tables, exact, want1, want2, gradients)
    step(call, tables, optimizer, stored, m1, m2, grad, indices, offsets, SUM, dtype, rounding=11)
    got = from_storage(stored, dtype)
    np.testing.assert_allclose(m1, want1, atol=1e-5, rtol=1e-5)
    touched = np.zeros(tables.elements, bool)
    for (_, row), (t, _) in gradients.items():
        touched[tables.position(t, row)] = True
    assert stored[~touched].tobytes() == before[~touched].tobytes()
    got, exact = got[touched], exact[touched]
    size = spacing(exact, dtype)
    deviation = (got - exact) / size
    fp32 = 1e-7  # of numbers up to 1: near zero more than a spacing
    assert (np.abs(got - exact) < size + fp32).all()
    chance = np.abs(exact) / size % 1
    error = np.sqrt((chance * (1 - chance)).sum())
    assert abs(deviation.sum()) < 4 * error
    assert (deviation**2).sum() > 0.5 * error**2


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16])
def test_infinite_and_not_a_number(call, dtype):
    values = np.array([[np.inf, -np.inf, np.nan, 0.0, -1.0, 1.0, 0.5, 2.0]], np.float32)
    stored = to_storage(np.zeros(8), dtype)
    arguments = EMPTY, EMPTY, -values, np.array([0]), np.array([0, 1]), SUM
    step(call, Tables([1], [8]), Optimizer("sgd", learning_rate=1.0), stored, *arguments, dtype, rounding=1)
    np.testing.assert_array_equal(from_storage(stored, dtype), values[0])
