"""HstuDenseBackward: what it has beyond test_hstu_dense.py."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_calls import BACKWARD, Gradients, check, same
from hstu_problem import Problem
from refusals import refused


def test_bias_gradient_only_when_asked(call):
    problem = Problem(lengths=[40, 0, 150], bias=(True, True))
    with_bias, without = check(call, BACKWARD, problem), check(call, Gradients(of_bias=False), problem)
    assert "bias" not in without
    assert same(without, with_bias)


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
