"""HstuDenseBackward: what it has beyond test_hstu_dense.py."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_calls import BACKWARD, Gradients, check, run, same
from hstu_problem import Problem
from hstu_reference import CAUSAL, FULL, Options
from refusals import refused


def test_bias_gradient_only_when_asked(call):
    problem = Problem(lengths=[40, 0, 150], bias=(True, True))
    with_bias, without = check(call, BACKWARD, problem), check(call, Gradients(of_bias=False), problem)
    assert "bias" not in without
    assert same(without, with_bias)


# 32 heads of which none is a 24th of the work: those are cut in which one of 24 shares of it ends (hstu_segments.h).
@pytest.mark.parametrize(("dtype", "mask_type"), [("float32", CAUSAL), ("bfloat16", CAUSAL), ("float16", FULL)])
def test_heads_are_cut_where_shares_end(call, dtype, mask_type, monkeypatch):
    lengths = [600, 590, 610, 600, 640, 577, 600, 601]
    problem = Problem(lengths=lengths, heads=4, dim=8, dtype=dtype, options=Options(mask_type=mask_type))
    expected = check(call, BACKWARD, problem)
    for cores in (2, 20):
        monkeypatch.setenv("TWIN_CORES", str(cores))
        assert same(expected, run(call, BACKWARD, problem))


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, np.zeros((18, 2, 31), np.float32)),
        (2, np.zeros((17, 2, 32), np.float32)),
        (6, np.zeros((2, 2), np.int64)),
        (5, np.zeros((2, 2, 8, 8), np.float32)),
        (5, None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(call, position, value):
    problem = Problem(lengths=[9, 9], bias=(True, True))
    inputs = [problem.arrays["grad"], *problem.inputs()]
    inputs[position] = value
    results = [problem.empty(*problem.arrays[name].shape) for name in ("q", "k", "v", "bias")]
    with refused():
        call(BACKWARD.snake, BACKWARD.type, *inputs, *problem.attributes(), *results)
    assert all((array == 7).all() for array in results)
