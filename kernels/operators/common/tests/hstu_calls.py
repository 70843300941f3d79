"""HstuDenseForward and HstuDenseBackward, called and checked alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from data_faults import no_faults
from hstu_problem import Problem, assert_close, wrap

FAULTS = 13  # their place among the arguments of the forward operator
Call = Callable[..., None]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Attention:
    """Q, k, v -> the output."""

    snake: str = "hstu_dense_forward"
    type: str = "HstuDenseForward"

    def outputs(self, problem: Problem) -> Arrays:
        return {"output": problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)}

    def arguments(self, problem: Problem, inputs: list | None = None, attributes: list | None = None) -> list:
        """All but the outputs; no pages; `faults` is the one before the attributes."""
        inputs = problem.inputs() if inputs is None else inputs
        return [*inputs, None, None, None, None, None, *(problem.attributes() if attributes is None else attributes)]

    def expected(self, problem: Problem) -> Arrays:
        return {"output": problem.expected_output()}

    def results(self, problem: Problem, outputs: Arrays) -> list:
        return [wrap(problem.shaped(outputs["output"]), problem.dtype), None]  # nobody asks for faults


@dataclass(frozen=True)
class Gradients:
    """Grad, q, k, v -> the gradients of q, k, v and, where there is one, of the bias."""

    snake: str = "hstu_dense_backward"
    type: str = "HstuDenseBackward"
    of_bias: bool = True

    def outputs(self, problem: Problem) -> Arrays:
        names = ("q", "k", "v", "bias") if self.of_bias and "bias" in problem.arrays else ("q", "k", "v")
        return {name: problem.empty(*problem.arrays[name].shape) for name in names}

    def arguments(self, problem: Problem, inputs: list | None = None, attributes: list | None = None) -> list:
        grad = wrap(problem.shaped(problem.arrays["grad"]), problem.dtype)
        inputs = problem.inputs() if inputs is None else inputs
        return [grad, *inputs, *(problem.attributes() if attributes is None else attributes)]

    def expected(self, problem: Problem) -> Arrays:
        return problem.expected_gradients()

    def results(self, problem: Problem, outputs: Arrays) -> list:
        shaped = {name: array if name == "bias" else problem.shaped(array) for name, array in outputs.items()}
        return [wrap(shaped.get(name), problem.dtype) for name in ("q", "k", "v", "bias")]


Operator = Attention | Gradients
FORWARD, BACKWARD = Attention(), Gradients()


def run(call: Call, operator: Operator, problem: Problem) -> Arrays:
    outputs = operator.outputs(problem)
    arguments, results = operator.arguments(problem), operator.results(problem, outputs)
    faults = no_faults()
    if isinstance(operator, Attention):
        arguments[FAULTS], results[-1] = faults, faults
    call(operator.snake, operator.type, *arguments, *results)
    assert not faults.any(), f"sound data is called wrong: {faults[faults[:, 0] > 0]}"
    return outputs


def check(call: Call, operator: Operator, problem: Problem) -> Arrays:
    """Runs it and compares with the definition in float64."""
    outputs = run(call, operator, problem)
    expected = operator.expected(problem)
    for name, given in outputs.items():
        assert_close(given, expected[name], problem.dtype, f"{name} of {problem}")
    return outputs


def same(first: Arrays, second: Arrays) -> bool:
    return all((array == second[name]).all() for name, array in first.items())
