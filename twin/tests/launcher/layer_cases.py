"""The operators around HSTU's attention, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Case, Output, Outputs
from layer_problem import Gate, Projection
from workshop import Operator

ALIKE = {"DTYPE_X": "float", "DTYPE_WEIGHT": "float"}
PROJECTION = Operator("hstu_projection", "HstuProjection", 5, ALIKE)
PROJECTION_GRADIENTS = Operator("hstu_projection_backward", "HstuProjectionBackward", 8, ALIKE, "hstu_projection")
GATE = Operator("hstu_gated_output", "HstuGatedOutput", 9, {"DTYPE_ATTENDED": "float", "DTYPE_X": "float"})
GATE_GRADIENTS = Operator(
    "hstu_gated_output_backward", "HstuGatedOutputBackward", 10, {"DTYPE_ATTENDED": "float"}, "hstu_gated_output"
)
TOLERANCE = 2e-5


def result(array: np.ndarray) -> Output:
    return Output(array.astype(np.float32), tolerance=TOLERANCE)


def projection_case(name: str, **problem: Any) -> Case:
    p = Projection(**problem)
    parts = [part.astype(np.float32) for part in p.expected_output()]
    return Case(name, [*p.inputs("x", "weight"), tuple(p.split), p.eps, Outputs(parts, TOLERANCE)])


def projection_gradients_case(name: str, **problem: Any) -> Case:
    p = Projection(**problem)
    results = [result(array) for array in p.expected_gradients().values()]
    return Case(name, [p.grads(), *p.inputs("x", "weight"), tuple(p.split), p.eps, *results])


def gate_case(name: str, **problem: Any) -> Case:
    p = Gate(**problem)
    inputs = p.inputs("attended", "u", "x", "weight", "bias")
    return Case(name, [*inputs, p.keep, p.scale, p.eps, result(p.expected_output())])


def gate_gradients_case(name: str, **problem: Any) -> Case:
    p = Gate(**problem)
    inputs = p.inputs("grad", "attended", "u", "weight")
    results = [result(array) for array in p.expected_gradients().values()]
    return Case(name, [*inputs, p.keep, p.scale, p.eps, *results])


# More blocks than 48 cores take at once, the last one short; widths with tails of lanes and of 32 bytes; with two cores
# blocks of many tokens follow each other.
PROJECTIONS = {
    "blocks": {"dim": 72, "split": (24, 9, 40), "tokens": 830},
    "one": {"dim": 5, "split": (3,), "tokens": 1},
    "panels": {"dim": 24, "split": (700, 900), "tokens": 600},  # on few cores a block's products are made by panels
}
GATES = [{"width": 72, "dim": 20, "tokens": 830}, {"width": 5, "dim": 33, "tokens": 1, "dropped": False}]
CASES = {
    PROJECTION: [projection_case(name, **p) for name, p in PROJECTIONS.items()],
    PROJECTION_GRADIENTS: [projection_gradients_case(name, **p) for name, p in PROJECTIONS.items()],
    GATE: [gate_case(name, **p) for name, p in zip(("blocks", "one"), GATES, strict=True)],
    GATE_GRADIENTS: [gate_gradients_case(name, **p) for name, p in zip(("blocks", "one"), GATES, strict=True)],
}
