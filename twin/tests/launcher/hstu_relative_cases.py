"""HSTU attention with a relative bias, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Argument, Case, NoOutput, Output
from hstu_reference import Options
from hstu_relative_problem import RelativeProblem
from workshop import Operator

RELATIVE = Operator("hstu_relative_forward", "HstuRelativeForward", 15, {"DTYPE_Q": "float"}, "hstu_dense_forward")
RELATIVE_GRADIENTS = Operator(
    "hstu_relative_backward", "HstuRelativeBackward", 18, {"DTYPE_Q": "float"}, "hstu_dense_backward"
)
TOLERANCE = 1e-5
OF_SUMS = 2e-4  # over all cells of a distance or a bucket


def relative_case(name: str, **problem: Any) -> Case:
    p = RelativeProblem(dim=8, **problem)
    result = Output(p.expected_output().astype(np.float32), tolerance=TOLERANCE)
    return Case(name, [*p.inputs(), None, *p.attributes(), result, NoOutput()])


def gradients_case(name: str, **problem: Any) -> Case:
    p = RelativeProblem(dim=8, **problem)
    results: list[Argument] = [
        Output(array.astype(np.float32), tolerance=OF_SUMS if key in ("position", "time") else TOLERANCE)
        for key, array in p.expected_gradients().items()
    ]
    return Case(name, [p.shaped(p.arrays["grad"]), *p.inputs(), *p.attributes(), *results])


# Blocks of 128 queries, a tail, an empty sequence; targets and context; times in one float, in two, and beyond both.
ATTENTION_CASES = [
    relative_case("blocks", lengths=[140, 0, 33], heads=2),
    relative_case("targets", lengths=[40, 21], contexts=[3, 0], targets=[9, 4], options=Options(group=2), gap=12.0),
    relative_case("far apart", lengths=[20, 30], heads=1, gap=54.0, ascending=False, buckets=120),
]
# One block each: the tables' gradients are partial sums of the cores, whose bits change with the number of cores.
GRADIENTS_CASES = [
    gradients_case("block", lengths=[120], heads=1),
    gradients_case("targets", lengths=[40], heads=1, contexts=[3], targets=[9], options=Options(group=2), gap=12.0),
    gradients_case("far apart", lengths=[30], heads=1, gap=54.0, ascending=False, buckets=120),
]
CASES = {RELATIVE: ATTENTION_CASES, RELATIVE_GRADIENTS: GRADIENTS_CASES}
