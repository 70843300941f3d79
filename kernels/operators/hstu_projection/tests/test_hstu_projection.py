"""HstuProjection and HstuProjectionBackward against their definitions in float64."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import Ints
from hstu_problem import read, stored, wrap
from layer_problem import TYPES, Arrays, Projection, assert_close
from refusals import refused

SNAKE = "hstu_projection"
FORWARD, BACKWARD = (SNAKE, "HstuProjection"), (SNAKE, "HstuProjectionBackward")
# Below, at and above blocks of 32 bytes and lanes of a vector; parts of unequal widths; the widest rows and parts.
PROJECTIONS = [
    (1, (1,)),
    (8, (8, 8, 4, 4)),
    (16, (16, 16)),
    (50, (50, 50, 50, 50)),
    (67, (40, 3, 130, 5)),
    (256, (256, 256, 128, 128)),
    (2048, (9,)),
    (12, (2300, 40)),
]


def forward(call, problem: Projection, **changes: object) -> list[np.ndarray]:
    arguments = {"x": problem.inputs("x")[0], "weight": problem.inputs("weight")[0], "split": problem.split} | changes
    parts = [problem.empty(problem.tokens, width) for width in problem.split]
    results = [wrap(part, problem.dtype) for part in parts]
    call(*FORWARD, arguments["x"], arguments["weight"], Ints(arguments["split"]), problem.eps, results)
    return parts


def backward(call, problem: Projection, grads: list[np.ndarray] | None = None) -> Arrays:
    shapes = {"x": problem.dim, "normed": problem.dim, "products": sum(problem.split)}
    outputs = {name: problem.empty(problem.tokens, width, name=name) for name, width in shapes.items()}
    given = [wrap(grad, problem.dtype) for grad in (problem.grads() if grads is None else grads)]
    results = [wrap(array, problem.type_of(name)) for name, array in outputs.items()]
    call(*BACKWARD, given, *problem.inputs("x", "weight"), Ints(problem.split), problem.eps, *results)
    return outputs


def check(call, problem: Projection) -> Arrays:
    parts = forward(call, problem)
    for index, (given, expected) in enumerate(zip(parts, problem.expected_output())):
        assert_close(given, expected, problem.dtype, f"part {index} of {problem}")
    outputs = backward(call, problem)
    for name, wanted in problem.expected_gradients().items():
        assert_close(outputs[name], wanted, problem.type_of(name), f"{name} of {problem}", problem.dtype)
    return {**outputs, **{f"part{index}": part for index, part in enumerate(parts)}}


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize(("dim", "split"), PROJECTIONS)
def test_widths(call, dim, split, types):
    check(call, Projection(tokens=37, dim=dim, split=split, **types))


# Around blocks of tokens: 16 for each of the 48 cores, then more.
@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 768, 769, 6150])
def test_tokens(call, tokens):
    check(call, Projection(tokens=tokens, dim=24, split=(16, 8, 24, 24), dtype="bfloat16"))


def test_the_most_columns(call):
    check(call, Projection(tokens=50, dim=8, split=(8192, 8192)))


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize(("tokens", "dim", "split"), [(600, 24, (700, 200, 900)), (330, 72, (5, 2300, 3, 1))])
def test_blocks_made_by_panels(call, monkeypatch, tokens, dim, split, types):
    """On two cores blocks have so many tokens that their products do not fit; panels end inside parts."""
    monkeypatch.setenv("TWIN_CORES", "2")
    check(call, Projection(tokens=tokens, dim=dim, split=split, **types))


@pytest.mark.parametrize("rows", ["", "float32"])
def test_every_machine_gives_the_same_bits(call, monkeypatch, rows):
    problem = Projection(tokens=300, dim=72, split=(40, 24, 40), dtype="float16", rows=rows)
    found = []
    for seed, cores in [("", 48), ("1", 2), ("3", 48), ("4", 6)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", seed)
        found.append(check(call, problem))
    assert all((array == found[0][name]).all() for given in found for name, array in given.items())


def test_large_products(call):
    """Exponentials that overflow: SiLU and its slope are 0 there, or the product and 1."""
    problem = Projection(tokens=20, dim=16, split=(8, 8))
    problem.arrays["weight"] *= 1000
    with np.errstate(over="ignore"):
        expected = problem.expected_output()
        of_products = problem.expected_gradients()["products"]
    for given, wanted in zip(forward(call, problem), expected):
        assert np.allclose(given, wanted, rtol=1e-4, atol=1e-2)
    assert np.allclose(backward(call, problem)["products"], of_products, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_beyond_fp16(call, dtype):
    """Rows of alternating 1 and -1: products of -160,000, 160,000 and 0; the last row is NaN."""
    problem = Projection(tokens=3, dim=16, split=(1, 2), dtype=dtype)
    signs = np.where(np.arange(16) % 2, -1.0, 1.0)
    rows = np.tile(signs, (3, 1))
    rows[2, 3] = np.nan
    weight = signs[:, None] * [-10_000.0, 10_000.0, 0.0]
    problem.arrays |= {"x": stored(rows, dtype), "weight": stored(weight, dtype)}
    products = np.concatenate([read(part, dtype) for part in forward(call, problem)], axis=1)
    ones = [stored(np.ones((3, width)), dtype) for width in problem.split]
    slopes = read(backward(call, problem, ones)["products"], dtype)
    largest = np.inf if dtype == "float16" else 160_000.0
    assert np.allclose(products[:2], [[0.0, largest, 0.0]] * 2, rtol=1e-2)
    assert (slopes[:2] == [[0.0, 1.0, 0.5]] * 2).all()
    assert np.isnan(products[2]).all() and np.isnan(slopes[2]).all()


def test_no_tokens(call):
    problem = Projection(tokens=0, dim=4, split=(3, 5))
    assert [part.shape for part in forward(call, problem)] == [(0, 3), (0, 5)]
    assert backward(call, problem)["products"].shape == (0, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"x": np.zeros(9, np.float32)},
        {"x": np.zeros((9, 5), np.float32)},
        {"weight": np.zeros((4, 7), np.float32)},
        {"split": (8, 0)},
        {"split": ()},
        {"split": (4, 5)},
        {"split": (8,)},
        {"split": (5, 2, 1)},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(call, changes):
    with refused():
        forward(call, Projection(tokens=9, dim=4, split=(5, 3)), **changes)


@pytest.mark.parametrize("shapes", [[(9, 5)], [(9, 3), (9, 5)], [(8, 5), (9, 3)], [(9, 5), (9, 3), (9, 1)]], ids=str)
def test_gradients_that_do_not_fit_are_refused(call, shapes):
    with refused():
        backward(call, Projection(tokens=9, dim=4, split=(5, 3)), [np.zeros(shape, np.float32) for shape in shapes])


def test_rows_of_16_bits_beside_another_type_are_refused(call):
    for dtype, rows in [("float32", "float16"), ("float16", "bfloat16")]:
        with refused():
            forward(call, Projection(tokens=9, dim=4, split=(5, 3), dtype=dtype, rows=rows))


def test_rows_wider_than_a_strip_are_refused(call):
    with refused():
        forward(call, Projection(tokens=2, dim=2049, split=(4,)))
