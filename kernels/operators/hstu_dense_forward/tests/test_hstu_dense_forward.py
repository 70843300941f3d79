"""HstuDenseForward against the definition in float64: what it has beyond test_hstu_dense.py."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_calls import FORWARD, check, run
from hstu_problem import Problem, assert_close, wrap
from hstu_reference import Options
from refusals import refused

NAME = FORWARD.snake, FORWARD.type


@pytest.mark.parametrize("scale", [0.0, 1.0, 1 / 256, -0.5])
def test_scale_is_one_over_the_longest_by_default(call, scale):
    for longest in (None, 64):
        check(call, FORWARD, Problem(lengths=[20, 64, 3], options=Options(scale=scale), longest=longest))


def test_longest_is_found_on_the_device(call):
    problem = Problem(lengths=[20, 64, 3])
    given = problem.attributes()
    output = problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)
    call(*NAME, *problem.inputs(), None, None, None, None, None, given[0], 0, *given[2:], output, None)
    assert (output == check(call, FORWARD, problem)["output"]).all()


def test_large_scores(call):
    problem = Problem(lengths=[40], dim=4, options=Options(alpha=10000.0))
    output = run(call, FORWARD, problem)["output"]
    assert np.allclose(output, problem.expected_output(), rtol=1e-4, atol=1e-2)


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
    call(
        *NAME,
        *inputs,
        wrap(cache, dtype),
        offsets,
        ids.astype(np.int64),
        last,
        None,
        *problem.attributes(),
        output,
        None,
    )
    assert_close(output, problem.expected_output(), dtype)


# The longest sequence of the peer beside short ones; rows of the result are compared here and there.
@pytest.mark.slow
def test_one_long_sequence_among_short_ones(call):
    problem = Problem(lengths=[1, 20480, 3, 1], heads=1, dim=16, dtype="float16")
    output = run(call, FORWARD, problem)["output"].astype(np.float64)
    q, k, v = (problem.value(name)[1:20481, 0] for name in ("q", "k", "v"))
    for i in (0, 1, 127, 128, 511, 512, 10000, 20478, 20479):
        scores = k[: i + 1] @ q[i]
        weights = scores / (1 + np.exp(-scores)) / 20480
        assert np.allclose(output[1 + i, 0], weights @ v[: i + 1], atol=2e-3, rtol=2e-3)


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
    with refused():
        call(*NAME, *inputs, None, None, None, None, None, *attributes, output, None)
    assert (output == 7).all()
