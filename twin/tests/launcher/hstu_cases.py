"""HSTU attention and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Argument, Case, NoOutput, Output
from hstu_problem import Problem
from hstu_reference import CUSTOM, FULL, UPPER, Options
from workshop import Operator

ATTENTION = Operator("hstu_dense_forward", "HstuDenseForward", 18, {"DTYPE_Q": "float"})
GRADIENTS = Operator("hstu_dense_backward", "HstuDenseBackward", 16, {"DTYPE_Q": "float"})
TOLERANCE = 1e-5


def attention_case(name: str, **problem: Any) -> Case:
    p = Problem(dim=8, **problem)
    no_pages_nor_faults = [None] * 5
    result = Output(p.shaped(p.expected_output().astype(np.float32)), tolerance=TOLERANCE)
    return Case(name, [*p.inputs(), *no_pages_nor_faults, *p.attributes(), result, NoOutput()])


def gradients_case(name: str, **problem: Any) -> Case:
    p = Problem(dim=8, **problem)
    results: list[Argument] = [
        Output((array if key == "bias" else p.shaped(array)).astype(np.float32), tolerance=TOLERANCE)
        for key, array in p.expected_gradients().items()
    ]
    if "bias" not in p.arrays:
        results.append(NoOutput())
    return Case(name, [p.shaped(p.arrays["grad"]), *p.inputs(), *p.attributes(), *results])


# Blocks of 128 queries, a tail, an empty sequence; bias of each sequence and a shared one; a mask of the caller's;
# targets and context; fewer queries than keys; a head of two segments.
BLOCKS = {"lengths": [140, 0, 33], "heads": 2}
ATTENTION_CASES = [
    attention_case("blocks", **BLOCKS, bias=(True, True)),
    attention_case("targets", lengths=[40, 21], contexts=[3, 0], targets=[9, 4], options=Options(group=2, alpha=0.5)),
    attention_case("upper", lengths=[50, 50], layout="normal", options=Options(mask_type=UPPER)),
    attention_case("weights", lengths=[30, 66], mask=(True, False), options=Options(mask_type=CUSTOM)),
    attention_case("more keys", lengths=[5, 20], key_lengths=[70, 20], options=Options(mask_type=FULL)),
    attention_case(
        "window by distance", lengths=[40, 21], contexts=[3, 0], targets=[9, 4], options=Options(group=4, distance=2)
    ),
    attention_case("long", lengths=[530], heads=1),
]
GRADIENTS_CASES = [
    gradients_case("blocks", **BLOCKS, bias=(True, True)),
    gradients_case("shared bias", lengths=[40, 21], bias=(False, True), slack=3),
    gradients_case("targets", lengths=[40, 21], contexts=[3, 0], targets=[9, 4], options=Options(group=2, alpha=0.5)),
    gradients_case(
        "window by distance", lengths=[40, 21], contexts=[3, 0], targets=[9, 4], options=Options(group=4, distance=2)
    ),
    gradients_case("segments", lengths=[530], heads=1),
    gradients_case("weights", lengths=[30, 66], mask=(True, False), options=Options(mask_type=CUSTOM)),
]
CASES = {ATTENTION: ATTENTION_CASES, GRADIENTS: GRADIENTS_CASES}
