"""BoundsCheckIndices against the sequential algorithm of the specification (docs/operators.md)."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_reference import FIRST_OFFSET, NOTHING, repair
from data_faults import no_faults, told
from refusals import refused

NAME = "bounds_check_indices", "BoundsCheckIndices"
FATAL, WARNING, IGNORE = range(3)
DTYPES = [(a, b) for a in ("int32", "int64") for b in ("int32", "int64")]


def run(call, rows, indices, offsets, mode, bags=None, dtypes=("int64", "int64"), sound=True):
    """(indices, offsets, warning, report) after the call. sound: b_offsets are, and the kernel is asked."""
    indices, offsets = np.array(indices, dtypes[0]), np.array(offsets, dtypes[1])
    warning, report = np.array([-9]), np.empty(8, np.int64)
    first_bags = None if bags is None else np.array(bags, np.int64)
    faults = no_faults() if sound else None
    results = indices, offsets, warning, report, faults
    call(*NAME, np.array(rows, np.int64), indices, offsets, warning, first_bags, faults, mode, *results)
    assert faults is None or not faults.any(), f"sound batches are called wrong: {told(faults)}"
    return indices, offsets, int(warning[0]), report.tolist()


def check(call, rows, indices, offsets, bags=None, dtypes=("int64", "int64")):
    bags_of = [(len(offsets) - 1) // max(len(rows), 1) * t for t in range(len(rows) + 1)] if bags is None else bags
    repaired, repaired_offsets, found, wrong = repair(rows, indices, offsets, bags_of)
    count = len(found) + len(wrong)
    first = (found + wrong)[0] if count else (NOTHING, 0, 0, 0, 0)
    for mode in (WARNING, IGNORE):
        got = run(call, rows, indices, offsets, mode, bags, dtypes)
        assert got[0].tolist() == repaired and got[1].tolist() == repaired_offsets
        assert got[2] == (count if mode == WARNING else -9)
        assert got[3][0] == count and tuple(got[3][1:6]) == first
    got = run(call, rows, indices, offsets, FATAL, bags, dtypes)
    assert got[0].tolist() == list(indices) and got[1].tolist() == list(offsets) and got[2] == -9
    if offsets[0] != 0:
        assert got[3][1] == FIRST_OFFSET and got[3][4] == offsets[0]
    elif found:
        assert got[3][0] >= 1 and tuple(got[3][1:6]) == first
    else:
        assert got[3][0] == count and tuple(got[3][1:6]) == first
        assert not wrong or got[3][6] == rows[wrong[0][1]]


GOLDEN = [
    ([0, 5, 2, 3, 2], [0, 2, 3, 4, 5]),
    ([0, -1, 2, -1, 2], [0, 2, 3, 4, 5]),
    ([0, -5, 2, 1, 2], [0, 2, 3, 4, 5]),
    ([0, 0, 2, 1, 2], [0, 3, 2, 4, 5]),
    ([0, 0, 2, 1, 2], [0, 2, 3, 4, 9]),
    ([0, 0, 2, 1, 2], [0, 2, 3, 4, 4]),
    ([0, 0, 2, 1, 2], [0, -2, 3, 4, 5]),
    ([0, -7, 9, 3, 2], [0, 9, 3, 4, 7]),
    ([0, 0, 2, 1, 2], [2, 2, 3, 4, 5]),
    ([0, 0, 2, 1, 2], [-3, 2, 3, 4, 5]),
    ([0, 0, 2, 1, 2], [9, 2, 3, 4, 5]),
]


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("row", range(len(GOLDEN)))
def test_golden(call, row, dtypes):
    check(call, [5, 3], *GOLDEN[row], dtypes=dtypes)


def test_golden_counts(call):
    assert run(call, [5, 3], *GOLDEN[0], WARNING)[2] == 2
    indices, offsets, warning, _ = run(call, [5, 3], *GOLDEN[7], WARNING)
    assert (indices.tolist(), offsets.tolist(), warning) == ([0, 0, 0, 3, 2], [0, 5, 5, 5, 5], 6)


@pytest.mark.parametrize("seed", range(12))
def test_random_content(call, seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        tables, ragged = int(rng.integers(1, 5)), bool(rng.integers(2))
        sizes = rng.integers(0, 5, tables) if ragged else np.full(tables, rng.integers(0, 5))
        bags = [0, *np.cumsum(sizes).tolist()]
        count = int(rng.integers(0, 20))
        if rng.integers(2):
            offsets = rng.integers(-2, count + 3, bags[-1] + 1)
        else:
            offsets = np.sort(rng.integers(0, count + 1, bags[-1] + 1))
        indices = rng.integers(-3, 8, count)
        dtypes = DTYPES[int(rng.integers(4))]
        rows = rng.integers(0, 7, tables).tolist()
        check(call, rows, indices.tolist(), offsets.tolist(), bags if ragged else None, dtypes)


# Over several cores and tiles; tables without rows, with one, with as many as an int32 can count, and more.
@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("broken", [False, True])
def test_large_inputs_and_machines(call, machine, dtypes, broken):
    rng = np.random.default_rng(7)
    rows = [10, 100000, 1, 2**31 - 1, 0, 7]
    if dtypes[0] == "int64":
        rows[3] = 2**40
    lengths = rng.integers(0, 6, 6 * 1500)
    lengths[4 * 1500 : 5 * 1500] = 0
    lengths[3 * 1500] = 9000  # one bag over several tiles
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    limits = np.repeat(np.repeat(rows, 1500), lengths)
    indices = (rng.random(len(limits)) * limits).astype(np.int64)
    indices[rng.choice(len(indices), 50)] = -1
    if broken:
        offsets[[17, 4000, 8999]] = [2**31 - 1, -1, 3]
        places = rng.choice(len(indices), 9, replace=False)
        indices[places] = [-2, -(2**31), 2**31 - 1, 10, 100000, 1, 7, -3, 2**31 - 1]
    check(call, rows, indices.tolist(), offsets.tolist(), dtypes=dtypes)


def test_64_bit_indices_beyond_32_bits(call):
    indices = np.arange(300)
    indices[[5, 200]] = [2**32 + 5, -(2**32)]
    check(call, [300], indices.tolist(), [0, 300])
    indices = np.arange(300) + 2**33
    indices[7] = 2**34
    check(call, [2**34], indices.tolist(), [0, 300])


@pytest.mark.parametrize("bags", [[0, 9, 4], [-5, 2, 4], [0, 0, 0], [4, 2, 0], [0, 2**32 + 2, 4]])
def test_wrong_b_offsets_are_memory_safe(call, machine, bags):
    run(call, [5, 3], [0, 9, 2, -7, 2], [0, 2, 3, 4, 5], WARNING, bags, sound=False)


def test_nothing_to_check(call):
    assert run(call, [], [], [0], WARNING)[2] == 0
    assert run(call, [5, 3], [], [0, 0, 0], WARNING)[2] == 0
    indices, offsets, warning, _ = run(call, [5, 3], [7, 8], [0], WARNING)  # B = 0: no bag holds the indices
    assert (indices.tolist(), offsets.tolist(), warning) == ([7, 8], [2], 1)


@pytest.mark.parametrize("fault", ["mode", "offsets", "warning", "b_offsets"])
def test_wrong_arguments(call, fault):
    with refused():
        if fault == "warning":
            two = np.zeros(2, np.int64)
            i, o = np.zeros(1, np.int64), np.array([0, 1])
            call(*NAME, np.array([5]), i, o, two, None, None, WARNING, i, o, two, np.empty(8, np.int64), None)
        run(
            call,
            [5, 3],
            [0],
            [0, 0, 0, 1] if fault == "offsets" else [0, 0, 1],
            3 if fault == "mode" else WARNING,
            [0, 1] if fault == "b_offsets" else None,
        )
