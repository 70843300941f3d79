"""HstuDenseForward against the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from aclnn_host import AclnnError
from hstu_problem import Problem, assert_close, wrap
from hstu_reference import CAUSAL, CUSTOM, FULL, UPPER, Options

NAME = "hstu_dense_forward", "HstuDenseForward"


def run(call, problem: Problem) -> np.ndarray:
    output = problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)
    call(
        *NAME,
        *problem.inputs(),
        None,
        None,
        None,
        None,
        *problem.attributes(),
        wrap(problem.shaped(output), problem.dtype),
    )
    return output


def check(call, problem: Problem) -> np.ndarray:
    output = run(call, problem)
    assert_close(output, problem.expected_output(), problem.dtype, f"{problem}")
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


# Orders of blocks, buffers and cores; tasks split in the middle of a sequence and of a head.
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_machine_gives_the_same_bits(call, dtype, monkeypatch):
    problem = Problem(lengths=[300, 5, 0, 1030], heads=3, dtype=dtype, bias=(True, True), dim=24)
    results = []
    for seed, cores in [(None, 48), (1, 2), (2, 20), (3, 40), (4, 48), (5, 6)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", "" if seed is None else str(seed))
        results.append(run(call, problem) if results else check(call, problem))
    assert all((result == results[0]).all() for result in results)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bias", [(True, True), (False, True), (True, False), (False, False)])
def test_bias(call, bias, dtype):
    for layout, lengths, slack in (("jagged", [40, 0, 150, 33], 7), ("normal", [70, 70], 0)):
        for mask_type in (CAUSAL, UPPER, FULL):
            options = Options(mask_type=mask_type, alpha=0.25, scale=-0.5)
            check(call, Problem(lengths=lengths, layout=layout, slack=slack, bias=bias, dtype=dtype, options=options))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mask_dtype", [None, "uint8"])
def test_custom_masks(call, mask_dtype, dtype):
    for shape in ((True, True), (False, True), (True, False), (False, False)):
        for bias in (None, (False, True)):
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
            check(call, problem)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1 / 256, -0.5])
def test_scale_is_one_over_the_longest_by_default(call, scale):
    for longest in (None, 64):
        check(call, Problem(lengths=[20, 64, 3], options=Options(scale=scale), longest=longest))


def test_longest_is_found_on_the_device(call):
    problem = Problem(lengths=[20, 64, 3])
    given = problem.attributes()
    output = problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)
    call(*NAME, *problem.inputs(), None, None, None, None, given[0], 0, *given[2:], output)
    assert (output == check(call, problem)).all()


# Context rows see the history, targets their group; sizes cross the 128-row block and the 512-column chunk.
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("group", [0, 1, 2, 3, 5])
def test_context_and_targets(call, group, dtype):
    options = Options(group=group, alpha=0.125)
    lengths = [8, 8, 0, 330, 700, 257, 300]
    contexts = [2, 0, 0, 300, 1, 0, 0]
    targets = [3, 4, 0, 30, 40, 257, 1]
    check(call, Problem(lengths=lengths, contexts=contexts, targets=targets, options=options, dtype=dtype))
    check(call, Problem(lengths=lengths, targets=targets, options=options, dtype=dtype, index="int32"))
    check(
        call,
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
def test_local_windows(call, window, full_tail):
    options = Options(window=window, full_tail=full_tail)
    lengths = [10, 10, 10, 10, 1, 420]
    check(call, Problem(lengths=lengths, contexts=[0, 1, 3, 10, 1, 60], targets=[0, 2, 7, 0, 0, 45], options=options))
    check(call, Problem(lengths=lengths, targets=[3, 10, 0, 0, 1, 45], options=options))


# Queries stand at the end of their keys.
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mask_type", [CAUSAL, UPPER, FULL, CUSTOM])
def test_fewer_queries_than_keys(call, mask_type, dtype):
    mask = (True, False) if mask_type == CUSTOM else None
    check(
        call,
        Problem(
            lengths=[1, 0, 60, 130],
            key_lengths=[600, 4, 60, 257],
            options=Options(mask_type=mask_type),
            mask=mask,
            bias=(True, True),
            dtype=dtype,
        ),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("page_size", [1, 16, 48, 128])
def test_paged_keys(call, page_size, dtype):
    rng = np.random.default_rng(page_size)
    cached, new = [0, 70, 5, 300], [9, 40, 1, 140]
    targets = [4, 0, 1, 17]
    problem = Problem(
        lengths=new,
        key_lengths=[a + b for a, b in zip(cached, new)],
        targets=targets,
        dtype=dtype,
        dim=24,
        options=Options(group=3),
    )
    # The cached part of each sequence moves into pages in any order, the rest stays.
    counts = [-(-c // page_size) for c in cached]
    pages = sum(counts) + 3
    ids = rng.permutation(pages)[: sum(counts)]
    cache = problem.empty(pages, 2, page_size, problem.heads, problem.dim)
    starts = np.concatenate([[0], np.cumsum(problem.keys)])
    tails = {"k": [], "v": []}
    for part, name in enumerate(("k", "v")):
        for b, page_start in enumerate(np.concatenate([[0], np.cumsum(counts)])[:-1]):
            rows = problem.arrays[name][starts[b] : starts[b + 1]]
            tails[name].append(rows[cached[b] :])
            for position in range(cached[b]):
                cache[ids[page_start + position // page_size], part, position % page_size] = rows[position]
    inputs = problem.inputs()
    inputs[1] = wrap(np.concatenate(tails["k"]), dtype)
    inputs[2] = wrap(np.concatenate(tails["v"]), dtype)
    inputs[6] = np.concatenate([[0], np.cumsum(new)])
    last = np.array([c - (n - 1) * page_size if n else 0 for c, n in zip(cached, counts)])
    output = problem.empty(sum(new), problem.heads, problem.dim)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    call(*NAME, *inputs, wrap(cache, dtype), offsets, ids.astype(np.int64), last, *problem.attributes(), output)
    assert_close(output, problem.expected_output(), dtype)


def test_rows_further_apart_than_65535_elements(call):
    check(call, Problem(lengths=[5, 3], heads=1100, dim=60))
    check(call, Problem(lengths=[5, 3], heads=300, dim=16, value_dim=220, dtype="float16"))


# What a masked cell holds must not reach the result: infinities in keys and in the bias, behind the diagonal.
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_masked_infinities_do_not_leak(call, dtype):
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
        expected = run(call, problem)
        problem.arrays["bias"] = np.where(hidden, infinite, clean).astype(clean.dtype)
        assert (run(call, problem) == expected).all()


def test_large_scores_do_not_become_nan(call):
    problem = Problem(lengths=[40], dim=4, options=Options(alpha=10000.0))
    output = run(call, problem)
    assert np.isfinite(output).all()
    assert np.allclose(output, problem.expected_output(), rtol=1e-4, atol=1e-2)


# Wrong offsets give wrong values, never a wrong address; rows of no sequence are zero.
@pytest.mark.parametrize("offsets", [[0, 900, 50], [-5, 2, 50], [50, 20, 0], [0, 2**40, -(2**40)], [7, 30, 40]])
def test_wrong_offsets_are_memory_safe(call, machine, offsets):
    problem = Problem(lengths=[25, 25], bias=(True, True), slack=20)
    inputs = problem.inputs()
    inputs[5] = np.array(offsets)
    output = problem.empty(50, problem.heads, problem.value_dim)
    call(*NAME, *inputs, None, None, None, None, *problem.attributes(), output)
    if offsets == [7, 30, 40]:
        assert (output[:7] == 0).all() and (output[40:] == 0).all() and (output[7:40] != 0).any()


# The longest sequence of the peer beside short ones; rows of the result are compared here and there.
@pytest.mark.slow
def test_one_long_sequence_among_short_ones(call):
    problem = Problem(lengths=[1, 20480, 3, 1], heads=1, dim=16, dtype="float16")
    output = run(call, problem).astype(np.float64)
    q, k, v = (problem.value(name)[1:20481, 0] for name in ("q", "k", "v"))
    for i in (0, 1, 127, 128, 511, 512, 10000, 20478, 20479):
        scores = k[: i + 1] @ q[i]
        weights = scores / (1 + np.exp(-scores)) / 20480
        assert np.allclose(output[1 + i, 0], weights @ v[: i + 1], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_empty_result(call, lengths):
    assert run(call, Problem(lengths=lengths)).size == 0


def broken(**changes):
    """A problem with one input or attribute replaced."""
    problem = Problem(lengths=[9, 9], layout=changes.pop("layout", "jagged"), **changes.pop("problem", {}))
    inputs, attributes = problem.inputs(), problem.attributes()
    for position, value in changes.pop("inputs", {}).items():
        inputs[position] = value
    for position, value in changes.pop("attributes", {}).items():
        attributes[position] = value
    assert not changes
    return problem, inputs, attributes


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": {1: np.zeros((18, 2, 31), np.float32)}},
        {"inputs": {2: np.zeros((17, 2, 32), np.float32)}},
        {"inputs": {5: None}},
        {"inputs": {5: np.zeros((2, 2), np.int64)}},
        {"inputs": {4: np.zeros((2, 2, 8, 8), np.float32)}},
        {"inputs": {4: np.zeros((3, 2, 9, 9), np.float32)}},
        {"attributes": {0: 4}},
        {"attributes": {0: 3}},
        {"attributes": {3: "padded"}},
        {"attributes": {4: -1}},
        {"attributes": {4: 2, 6: 5}},
        {"layout": "normal", "attributes": {1: 8}},
        {"inputs": {8: np.zeros(3, np.int64)}},
        {"problem": {"dim": 513}},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(call, changes):
    problem, inputs, attributes = broken(**changes)
    output = problem.shaped(problem.empty(18, problem.heads, problem.value_dim))
    with pytest.raises(AclnnError) as error:
        call(*NAME, *inputs, None, None, None, None, *attributes, output)
    assert error.value.code == 161002
    assert (output == 7).all()
