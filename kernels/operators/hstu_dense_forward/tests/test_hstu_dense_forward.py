"""HstuDenseForward against the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import AclnnError
from hstu_problem import Problem, assert_close, wrap
from hstu_reference import CAUSAL, CUSTOM, FULL, UPPER, Options, forward

NAME = "hstu_dense_forward", "HstuDenseForward"


def run(call, problem: Problem) -> np.ndarray:
    output = problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)
    call(*NAME, *problem.inputs(), None, None, None, None, *problem.attributes(),
         wrap(problem.shaped(output), problem.dtype))
    return output


def check(call, problem: Problem) -> np.ndarray:
    output = run(call, problem)
    expected = np.zeros(output.shape)
    options = problem.resolved()
    for own, _, row in problem.rows():
        expected[own] = forward(row, options).transpose(1, 0, 2)
    assert_close(output, expected, problem.dtype, f"{problem}")
    return output


# Lengths around the 64-column unit and the 128-row block, with empty sequences; one that needs several chunks of 512.
LENGTHS = [[1], [3, 0, 1], [63, 64, 65], [127, 0, 129], [17, 700, 2]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask_type", [CAUSAL, UPPER, FULL, CUSTOM])
def test_masks_and_types(call, mask_type, dtype):
    for seed, lengths in enumerate(LENGTHS):
        mask = (True, True) if mask_type == CUSTOM else None
        options = Options(mask_type=mask_type)
        check(call, Problem(lengths=lengths, dtype=dtype, options=options, mask=mask, seed=seed))


# No multiple of 16 is special: 1, odd, 50, and the largest; values of another width than keys.
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("dim", "value_dim", "heads"),
    [(1, 1, 1), (7, 9, 3), (8, 8, 1), (16, 1, 5), (50, 33, 2), (64, 128, 2), (256, 40, 1), (512, 512, 1)],
)
def test_dims_and_heads(call, dim, value_dim, heads, dtype):
    check(call, Problem(lengths=[30, 0, 137], dim=dim, value_dim=value_dim, heads=heads, dtype=dtype, seed=dim))


@pytest.mark.parametrize("layout", ["normal", "jagged"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_layouts(call, layout, index):
    for mask_type in (CAUSAL, UPPER, FULL):
        options = Options(mask_type=mask_type)
        check(call, Problem(lengths=[50, 50, 50], layout=layout, index=index, options=options, heads=3))
