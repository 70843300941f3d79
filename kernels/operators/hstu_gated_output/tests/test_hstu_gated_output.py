"""HstuGatedOutput and HstuGatedOutputBackward against their definitions in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_problem import wrap
from layer_problem import TYPES, Arrays, Gate, assert_close
from refusals import refused

SNAKE = "hstu_gated_output"
FORWARD, BACKWARD = (SNAKE, "HstuGatedOutput"), (SNAKE, "HstuGatedOutputBackward")
# Below, at and above blocks of 32 bytes, lanes of a vector, units of the cube; and the widest rows.
WIDTHS = [(1, 1), (7, 9), (16, 16), (31, 33), (64, 64), (65, 127), (200, 50), (512, 256), (2048, 40), (40, 2048)]


def forward(call, problem: Gate, **changes: object) -> np.ndarray:
    names = ("attended", "u", "x", "weight", "bias")
    inputs = [*problem.inputs(*names), problem.keep]
    for position, value in changes.pop("inputs", {}).items():
        inputs[position] = value
    assert not changes
    out = problem.empty(problem.tokens, problem.dim, name="out")
    call(*FORWARD, *inputs, problem.scale, problem.eps, wrap(out, problem.type_of("out")))
    return out


def backward(call, problem: Gate) -> Arrays:
    inputs = problem.inputs("grad", "attended", "u", "weight")
    outputs = {name: problem.empty(problem.tokens, problem.width) for name in ("attended", "u", "gated")}
    results = [wrap(array, problem.dtype) for array in outputs.values()]
    call(*BACKWARD, *inputs, problem.keep, problem.scale, problem.eps, *results)
    return outputs


def check(call, problem: Gate) -> Arrays:
    outputs = {"out": forward(call, problem), **backward(call, problem)}
    expected = {"out": problem.expected_output(), **problem.expected_gradients()}
    for name, given in outputs.items():
        assert_close(given, expected[name], problem.type_of(name), f"{name} of {problem}", problem.dtype)
    return outputs


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize(("width", "dim"), WIDTHS)
def test_widths(call, width, dim, types):
    check(call, Gate(tokens=37, width=width, dim=dim, dropped=width % 2 == 0, **types))


# Around blocks of tokens: 16 for each of the 48 cores, then 128.
@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 768, 769, 6150])
def test_tokens(call, tokens):
    check(call, Gate(tokens=tokens, width=24, dim=16, dtype="float16"))


# Blocks follow each other on few cores. Sums of the backward pass: in the workspace; half and half in two results.
@pytest.mark.parametrize(("tokens", "width", "rows"), [(300, 72, ""), (600, 72, "float32"), (600, 64, "")])
def test_every_machine_gives_the_same_bits(call, monkeypatch, tokens, width, rows):
    problem = Gate(tokens=tokens, width=width, dim=40, dtype="bfloat16", rows=rows)
    found = []
    for seed, cores in [("", 48), ("1", 2), ("3", 48), ("4", 6)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", seed)
        found.append(check(call, problem))
    assert all((array == found[0][name]).all() for given in found for name, array in given.items())


@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_rows_far_from_zero_and_rows_without_deviation(call, shift):
    """The mean is taken away before squares are summed; eps stands where all elements of a row are equal."""
    problem = Gate(tokens=6, width=100, dim=8, dropped=False, eps=1e-3)
    problem.arrays["attended"] += np.float32(shift)
    problem.arrays["attended"][2] = shift
    expected = problem.expected_output()
    assert np.abs(forward(call, problem) - expected).max() < (2e-5 if shift == 0 else 2e-3)


def test_all_elements_dropped(call):
    problem = Gate(tokens=20, width=48, dim=16)
    problem.keep[:] = 0
    outputs = check(call, problem)
    assert (outputs["out"] == problem.arrays["x"] + problem.arrays["bias"]).all()
    assert all((outputs[name] == 0).all() for name in ("attended", "u", "gated"))


def test_no_tokens(call):
    problem = Gate(tokens=0, width=8, dim=4)
    assert forward(call, problem).shape == (0, 4) and backward(call, problem)["u"].shape == (0, 8)


@pytest.mark.parametrize(
    ("position", "shape"),
    [(1, (9, 15)), (2, (9, 5)), (2, (8, 4)), (3, (4, 15)), (4, (5,)), (5, (9, 15)), (0, (9, 16, 1))],
)
def test_what_does_not_fit_is_refused(call, position, shape):
    dtype = np.uint8 if position == 5 else np.float32
    with refused():
        forward(call, Gate(tokens=9, width=16, dim=4), inputs={position: np.zeros(shape, dtype)})


def test_a_wide_residual_is_not_rounded(call):
    """All elements dropped: x and the bias are added in float32, beside a product of zeros."""
    problem = Gate(tokens=20, width=48, dim=16, dtype="bfloat16", rows="float32")
    problem.keep[:] = 0
    expected = (problem.arrays["x"] + np.float32(0)) + problem.value("bias").astype(np.float32)
    assert (forward(call, problem) == expected).all()


def test_rows_of_16_bits_beside_another_type_are_refused(call):
    for dtype, rows in [("float32", "float16"), ("float16", "bfloat16")]:
        with refused():
            forward(call, Gate(tokens=9, width=16, dim=4, dtype=dtype, rows=rows))


def test_rows_wider_than_a_strip_are_refused(call):
    with refused():
        forward(call, Gate(tokens=2, width=2049, dim=4))
