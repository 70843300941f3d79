"""HstuRelativeForward and HstuRelativeBackward against their definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hstu_calls import same
from hstu_reference import FULL, UPPER, Options
from hstu_relative_problem import (
    BACKWARD,
    FORWARD,
    RelativeOperator,
    RelativeProblem,
    bucket,
    check,
    edges,
    run,
)
from refusals import refused


@pytest.fixture(params=[FORWARD, BACKWARD], ids=lambda operator: operator.snake)
def operator(request: pytest.FixtureRequest) -> RelativeOperator:
    return request.param


# Lengths around the 64-column unit and the 128-row block, with empty sequences; one that needs several chunks of 512.
LENGTHS = [[1], [3, 0, 1], [63, 64, 65], [127, 0, 129], [17, 700, 2]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_lengths_and_types(call, operator, dtype):
    for seed, lengths in enumerate(LENGTHS):
        check(call, operator, RelativeProblem(lengths=lengths, dtype=dtype, seed=seed))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("dim", "value_dim", "heads"), [(1, 1, 1), (50, 33, 3), (64, 128, 2), (512, 512, 1)])
def test_dims_and_heads(call, operator, dim, value_dim, heads, dtype):
    shape = {"dim": dim, "value_dim": value_dim, "heads": heads}
    check(call, operator, RelativeProblem(lengths=[30, 0, 137], dtype=dtype, seed=dim, **shape))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("group", [0, 3])
def test_context_and_targets(call, operator, group, dtype):
    """Targets stand where the next token would; what contextual tokens see later has distance 0."""
    options = Options(group=group, alpha=0.125, scale=-0.05)
    lengths = [8, 0, 330, 150, 130]
    views = {"contexts": [2, 0, 300, 1, 0], "targets": [3, 0, 30, 40, 130], "index": "int32" if group else "int64"}
    check(call, operator, RelativeProblem(lengths=lengths, options=options, dtype=dtype, **views))


@pytest.mark.parametrize(
    "options",
    [
        Options(window=4),
        Options(window=200, full_tail=3),
        Options(distance=64, group=3),
        Options(mask_type=UPPER),
        Options(mask_type=FULL),
    ],
    ids=str,
)
def test_other_masks(call, operator, options):
    views = {} if options.mask_type else {"contexts": [0, 3, 60], "targets": [2, 7, 45]}
    check(call, operator, RelativeProblem(lengths=[10, 10, 420], options=options, **views))


@pytest.mark.parametrize("gap", [0.0, 8.0, 30.0, 44.0, 54.0])
@pytest.mark.parametrize("ascending", [True, False])
def test_gaps_of_time(call, operator, gap, ascending):
    """Within one float, within two, beyond both; sorted or not."""
    check(call, operator, RelativeProblem(lengths=[150, 40], gap=gap, ascending=ascending, buckets=120))


@pytest.mark.parametrize("buckets", [1, 2, 63, 512])
def test_sizes_of_the_time_table(call, operator, buckets):
    """A table with more entries than seconds reach, whose gradient is 0 there."""
    outputs = check(call, operator, RelativeProblem(lengths=[40, 129], buckets=min(buckets, 140), gap=20.0))
    assert all(np.isfinite(array).all() for array in outputs.values())


def _seconds_of_every_edge() -> np.ndarray:
    """[n] int64: the least difference of each bucket and the one before it, and the ends of what 64 bits hold."""
    edges_T = edges(146)
    found = []
    for edge in edges_T[1:]:
        low, high = 0, 2**63 - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if np.float32(middle) >= edge else (middle + 1, high)
        found += [low - 1, low]
    ends = [0, 1, -1, -5, 2**24 - 1, 2**24, 2**24 + 1, 2**48 - 1, 2**48, 2**48 + 1, 2**62, 2**63 - 1, -(2**63)]
    return np.array([*found, *ends], np.int64)


@pytest.mark.parametrize("first", [0, 10**9, -(2**62), 2**63 - 1, -(2**63)], ids=str)
def test_buckets_are_exact_for_all_times(call, first):
    """Each bucket has a number of its own, and v is the unit matrix: the output shows every cell's bucket."""
    seconds = _seconds_of_every_edge()
    with np.errstate(over="ignore"):
        times = np.int64(first) + seconds
    chunks = [times[i : i + 100] for i in range(0, len(times), 100)]
    for chunk in chunks:
        sequence = np.concatenate([[np.int64(first)], chunk])
        n = len(sequence)
        problem = RelativeProblem(
            lengths=[n],
            heads=1,
            dim=1,
            value_dim=n,
            buckets=146,
            times=sequence,
            options=Options(mask_type=FULL, scale=1.0),
        )
        problem.arrays["q"][:] = 0
        problem.arrays["v"][:] = np.eye(n, dtype=np.float32)[:, None]
        problem.arrays["position"][:] = 0
        problem.arrays["time"][:] = 1 + np.arange(146) / 16
        output = run(call, FORWARD, problem)["output"][:, 0]
        silu = problem.arrays["time"] / (1 + np.exp(-problem.arrays["time"]))
        found = np.abs(output[..., None] - silu).argmin(-1)
        with np.errstate(over="ignore"):
            wanted = bucket(sequence[:, None] - sequence[None, :], problem.edges_T)
        assert (found == wanted).all()


# Orders of blocks, buffers and cores. The tables' gradients are partial sums of the cores: their bits hold for one
# number of cores.
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_machine_gives_the_same_bits(call, operator, dtype, monkeypatch):
    problem = RelativeProblem(lengths=[150, 5, 0, 290], heads=2, dtype=dtype, dim=24)
    results = []
    for seed, cores in [(None, 48), (1, 2), (3, 48), (4, 6)]:
        monkeypatch.setenv("TWIN_CORES", str(cores))
        monkeypatch.setenv("TWIN_SEED", "" if seed is None else str(seed))
        results.append((cores, check(call, operator, problem)))
    rows = [{name: x for name, x in given.items() if name not in ("position", "time")} for _, given in results]
    assert all(same(rows[0], given) for given in rows)
    assert all(same(results[0][1], given) for cores, given in results if cores == 48)


def test_rows_further_apart_than_65535_elements(call, operator):
    check(call, operator, RelativeProblem(lengths=[5, 3], heads=1100, dim=60))


@pytest.mark.parametrize("offsets", [[0, 900, 50], [-5, 2, 50], [50, 20, 0], [7, 30, 40]])
def test_wrong_offsets_are_memory_safe(call, operator, machine, offsets):
    problem = RelativeProblem(lengths=[25, 25])
    inputs = problem.inputs()
    inputs[7] = np.array(offsets)
    outputs = run(call, operator, problem, inputs)
    if offsets == [7, 30, 40]:
        rows = [array for name, array in outputs.items() if name not in ("position", "time")]
        assert all((array[:7] == 0).all() and (array[40:] == 0).all() for array in rows)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_empty_result(call, operator, lengths):
    outputs = run(call, operator, RelativeProblem(lengths=lengths))
    assert all((array == 0).all() for array in outputs.values())


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (3, np.zeros((4, 4), np.float32)),
        (3, np.zeros(5, np.float32)),  # fewer than max_seq_len
        (4, np.zeros(513, np.float32)),
        (4, np.zeros(0, np.float32)),
        (5, np.zeros(17, np.int64)),
        (6, np.zeros(511, np.int64)),
        (8, np.zeros(3, np.int64)),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(call, operator, position, value):
    problem = RelativeProblem(lengths=[9, 9])
    inputs = problem.inputs()
    inputs[position] = value
    outputs = operator.outputs(problem)
    with refused():
        call(operator.folder, operator.type, *operator.arguments(problem, inputs), *operator.results(problem, outputs))
    assert all((array == 7).all() for array in outputs.values())
