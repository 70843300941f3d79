"""What holds of HstuDenseForward and HstuDenseBackward alike, against their definitions in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_calls import BACKWARD, FORWARD, Operator, check, run, same
from hstu_problem import Problem
from hstu_reference import CAUSAL, CUSTOM, FULL, UPPER, Options


@pytest.fixture(params=[FORWARD, BACKWARD], ids=lambda operator: operator.snake)
def operator(request: pytest.FixtureRequest) -> Operator:
    return request.param


# Lengths around the 64-column unit and the 128-row block, with empty sequences; one that needs several chunks of 512.
LENGTHS = [[1], [3, 0, 1], [63, 64, 65], [127, 0, 129], [17, 700, 2]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask_type", [CAUSAL, UPPER, FULL, CUSTOM])
def test_masks_and_types(call, operator, mask_type, dtype):
    for seed, lengths in enumerate(LENGTHS):
        mask = (True, True) if mask_type == CUSTOM else None
        options = Options(mask_type=mask_type)
        check(call, operator, Problem(lengths=lengths, dtype=dtype, options=options, mask=mask, seed=seed))


# No multiple of 16 is special: 1, odd, 50, and the largest; values of another width than keys.
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("dim", "value_dim", "heads"),
    [(1, 1, 1), (7, 9, 3), (8, 8, 1), (16, 1, 5), (50, 33, 2), (64, 128, 2), (256, 40, 1), (512, 512, 1)],
)
def test_dims_and_heads(call, operator, dim, value_dim, heads, dtype):
    check(
        call, operator, Problem(lengths=[30, 0, 137], dim=dim, value_dim=value_dim, heads=heads, dtype=dtype, seed=dim)
    )


@pytest.mark.parametrize("layout", ["normal", "jagged"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_layouts(call, operator, layout, index):
    for mask_type in (CAUSAL, UPPER, FULL):
        options = Options(mask_type=mask_type)
        check(call, operator, Problem(lengths=[50, 50, 50], layout=layout, index=index, options=options, heads=3))


# A bias of its own per sequence and head, and every way to share it: then its gradient is a sum.
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bias", [(True, True), (False, True), (True, False), (False, False)])
def test_bias(call, operator, bias, dtype):
    for layout, lengths, slack in (("jagged", [40, 0, 150, 33], 7), ("normal", [70, 70], 0)):
        for mask_type in (CAUSAL, UPPER, FULL):
            options = Options(mask_type=mask_type, alpha=0.25, scale=-0.05)
            check(
                call,
                operator,
                Problem(lengths=lengths, layout=layout, slack=slack, bias=bias, dtype=dtype, options=options),
            )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask_dtype", [None, "uint8"])
def test_custom_masks(call, operator, mask_dtype, dtype):
    for shape in ((True, True), (False, True), (True, False), (False, False)):
        for bias in (None, (False, True), (True, True)):
            options = Options(mask_type=CUSTOM)
            problem = Problem(
                lengths=[33, 0, 190],
                mask=shape,
                mask_dtype=mask_dtype,
                bias=bias,
                slack=3,
                dtype=dtype,
                options=options,
            )
            check(call, operator, problem)


# Context rows see the history, targets their group; sizes cross the 128-row block and the 512-column chunk.
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("group", [0, 1, 2, 3, 5])
def test_context_and_targets(call, operator, group, dtype):
    options = Options(group=group, alpha=0.125)
    lengths = [8, 8, 0, 330, 700, 257, 300]
    contexts = [2, 0, 0, 300, 1, 0, 0]
    targets = [3, 4, 0, 30, 40, 257, 1]
    check(call, operator, Problem(lengths=lengths, contexts=contexts, targets=targets, options=options, dtype=dtype))
    check(
        call,
        operator,
        Problem(lengths=lengths, targets=targets, options=options, dtype=dtype, index="int32", bias=(False, True)),
    )
    check(
        call,
        operator,
        Problem(
            lengths=[90, 90],
            contexts=[3, 7],
            targets=[9, 80],
            options=options,
            dtype=dtype,
            layout="normal",
            index="int32",
        ),
    )


@pytest.mark.parametrize("window", [1, 2, 4, 200])
@pytest.mark.parametrize("full_tail", [0, 1, 3, 150])
def test_local_windows(call, operator, window, full_tail):
    options = Options(window=window, full_tail=full_tail)
    lengths = [10, 10, 10, 10, 1, 420]
    check(
        call,
        operator,
        Problem(lengths=lengths, contexts=[0, 1, 3, 10, 1, 60], targets=[0, 2, 7, 0, 0, 45], options=options),
    )
    check(call, operator, Problem(lengths=lengths, targets=[3, 10, 0, 0, 1, 45], options=options))


@pytest.mark.parametrize("distance", [0, 1, 3, 64, 200, 2**40])
@pytest.mark.parametrize("group", [1, 3])
def test_windows_by_distance(call, operator, distance, group):
    options = Options(distance=distance, group=group)
    lengths = [10, 10, 10, 10, 1, 420]
    check(
        call,
        operator,
        Problem(lengths=lengths, contexts=[0, 1, 3, 10, 1, 60], targets=[0, 2, 7, 0, 0, 145], options=options),
    )
    check(call, operator, Problem(lengths=lengths, targets=[3, 10, 0, 0, 1, 245], options=options, dtype="float16"))


# Queries stand at the end of their keys.
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mask_type", [CAUSAL, UPPER, FULL, CUSTOM])
def test_fewer_queries_than_keys(call, operator, mask_type, dtype):
    mask = (True, False) if mask_type == CUSTOM else None
    check(
        call,
        operator,
        Problem(
            lengths=[1, 0, 60, 130],
            key_lengths=[600, 4, 60, 257],
            options=Options(mask_type=mask_type),
            mask=mask,
            bias=(True, True),
            dtype=dtype,
        ),
    )


def test_rows_further_apart_than_65535_elements(call, operator):
    check(call, operator, Problem(lengths=[5, 3], heads=1100, dim=60))
    check(call, operator, Problem(lengths=[5, 3], heads=300, dim=16, value_dim=220, dtype="float16"))


# What a masked cell holds must not reach the result: infinities in keys and in the bias, behind the diagonal.
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_masked_infinities_do_not_leak(call, operator, dtype):
    for mask_type in (CAUSAL, CUSTOM):
        problem = Problem(
            lengths=[70],
            dtype=dtype,
            bias=(True, True),
            mask=(True, True) if mask_type == CUSTOM else None,
            options=Options(mask_type=mask_type),
        )
        clean = problem.arrays["bias"].copy()
        hidden = np.broadcast_to(np.triu(np.ones((70, 70), bool), 1), clean.shape)
        if mask_type == CUSTOM:
            hidden = problem.value("mask") == 0
        infinite = np.uint16(0x7F80) if dtype == "bfloat16" else np.inf
        expected = run(call, operator, problem)
        problem.arrays["bias"] = np.where(hidden, infinite, clean).astype(clean.dtype)
        assert same(expected, run(call, operator, problem))


# Orders of blocks, buffers and cores; tasks split in the middle of a sequence and of a head.
@pytest.mark.parametrize(
    ("operator", "dtype", "bias"),
    [
        (FORWARD, "float32", (True, True)),
        (FORWARD, "bfloat16", (True, True)),
        (BACKWARD, "bfloat16", (True, True)),
        (BACKWARD, "bfloat16", (False, False)),
    ],
    ids=str,
)
def test_every_machine_gives_the_same_bits(call, operator, dtype, bias, monkeypatch):
    problem = Problem(lengths=[300, 5, 0, 530], heads=3, dtype=dtype, bias=bias, dim=24)
    results = []
    for seed, cores in [(None, 48), (1, 2), (2, 20), (3, 40), (4, 48), (5, 6)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", "" if seed is None else str(seed))
        results.append(run(call, operator, problem) if results else check(call, operator, problem))
    assert all(same(results[0], result) for result in results)


def test_large_scores_do_not_become_nan(call, operator):
    problem = Problem(lengths=[40], dim=4, options=Options(alpha=10000.0))
    assert all(np.isfinite(array).all() for array in run(call, operator, problem).values())


# Wrong offsets give wrong values, never a wrong address; rows of no sequence are zero.
@pytest.mark.parametrize("offsets", [[0, 900, 50], [-5, 2, 50], [50, 20, 0], [0, 2**40, -(2**40)], [7, 30, 40]])
def test_wrong_offsets_are_memory_safe(call, operator, machine, offsets):
    problem = Problem(lengths=[25, 25], bias=(True, True), slack=20)
    inputs = problem.inputs()
    inputs[5] = np.array(offsets)
    outputs = operator.outputs(problem)
    arguments = operator.arguments(problem, inputs)
    call(operator.snake, operator.type, *arguments, *operator.results(problem, outputs))
    if offsets == [7, 30, 40]:
        for array in (array for name, array in outputs.items() if name != "bias"):
            assert (array[:7] == 0).all() and (array[40:] == 0).all() and (array[7:40] != 0).any()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_empty_result(call, operator, lengths):
    outputs = run(call, operator, Problem(lengths=lengths, bias=(True, True)))
    assert all((array == 0).all() for array in outputs.values())
