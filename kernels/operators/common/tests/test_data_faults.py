"""Data that only the device sees: each kind of fault is told with its place and value, and sound data is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from aclnn_host import Ints
from data_faults import ARGUMENT, no_faults, told
from embedding_reference import NONE, SUM
from hstu_calls import FAULTS, FORWARD
from hstu_problem import Problem
from hstu_reference import CUSTOM, Options
from hstu_relative_problem import FORWARD as RELATIVE
from hstu_relative_problem import RelativeProblem
from permute_reference import starts_of

Run = Callable[..., None]


def hstu(call: Run, faults: np.ndarray, problem: Problem, longest: int | None = None, **inputs: list[int]) -> None:
    """inputs: what takes the place of seq_offset and so on."""
    names = ["q", "k", "v", "mask", "bias", "seq_offset", "seq_offset_k", "num_context", "num_target"]
    given = problem.inputs()
    for name, values in inputs.items():
        given[names.index(name)] = np.array(values)
    attributes = problem.attributes()
    attributes[1] = problem.longest if longest is None else longest
    arguments = FORWARD.arguments(problem, given, attributes)
    arguments[FAULTS] = faults
    results = FORWARD.results(problem, FORWARD.outputs(problem))
    call(FORWARD.snake, FORWARD.type, *arguments, results[0], faults)


THREE = Problem(lengths=[25, 30, 25])
HSTU = {
    "first": ({"seq_offset": [1, 25, 55, 80]}, "FIRST", "SEQ_OFFSET", (0, 1, 0)),
    "decreasing": ({"seq_offset": [0, 50, 49, 80], "longest": 80}, "DECREASES", "SEQ_OFFSET", (2, 49, 50)),
    "last": ({"seq_offset": [0, 25, 55, 79]}, "NOT_THE_END", "SEQ_OFFSET", (3, 79, 80)),
    "too long": ({"longest": 29}, "TOO_LONG", "MAX_SEQ_LEN", (1, 30, 29)),
    "context": ({"num_context": [0, -1, 0]}, "NEGATIVE", "NUM_CONTEXT", (1, -1, 0)),
    "target": ({"num_target": [0, 0, -4]}, "NEGATIVE", "NUM_TARGET", (2, -4, 0)),
    "counts": ({"num_context": [20, 0, 0], "num_target": [6, 0, 0]}, "TOO_MANY_COUNTED", "NUM_CONTEXT", (0, 26, 25)),
}


@pytest.mark.parametrize("name", HSTU)
def test_hstu(call: Run, machine: None, name: str) -> None:
    changes, kind, argument, numbers = HSTU[name]
    faults = no_faults()
    hstu(call, faults, THREE, **changes)
    assert told(faults) == {("HSTU_DENSE_FORWARD", kind, ARGUMENT[argument], *numbers)}


def test_hstu_with_fewer_queries_than_keys(call: Run, machine: None) -> None:
    problem = Problem(lengths=[5, 20], key_lengths=[30, 20])
    faults = no_faults()
    hstu(call, faults, problem, seq_offset_k=[0, 31, 50], longest=40)
    assert told(faults) == {("HSTU_DENSE_FORWARD", "TOO_MANY_QUERIES", ARGUMENT["SEQ_OFFSET"], 1, 20, 19)}
    faults = no_faults()
    hstu(call, faults, problem, seq_offset_k=[3, 30, 50])
    assert told(faults) == {("HSTU_DENSE_FORWARD", "FIRST", ARGUMENT["SEQ_OFFSET_K"], 0, 3, 0)}


def test_hstu_sides_of_bias_and_mask(call: Run) -> None:
    """A list of offsets may be longer than what max_seq_len, 0 here, says of them."""
    for about in ({"bias": (True, True)}, {"mask": (True, False), "options": Options(mask_type=CUSTOM)}):
        problem = Problem(lengths=[25, 25], **about)
        faults = no_faults()
        hstu(call, faults, problem, longest=0, seq_offset=[0, 24, 50])
        argument = ARGUMENT["ATTN_BIAS" if "bias" in about else "MASK"]
        assert told(faults) == {("HSTU_DENSE_FORWARD", "TOO_LONG", argument, 1, 26, 25)}


PAGES = {
    "sound": ({}, set()),
    "page": ({"ids": [1, 0, 4]}, {("OUT_OF_RANGE", "PAGE_IDS", 2, 4, 4)}),
    "negative page": ({"ids": [1, -1, 2]}, {("OUT_OF_RANGE", "PAGE_IDS", 1, -1, 4)}),
    "fill": ({"last": [8, 9]}, {("BAD_FILL", "LAST_PAGE_LEN", 1, 9, 8)}),
    "empty page": ({"last": [0, 2]}, {("BAD_FILL", "LAST_PAGE_LEN", 0, 0, 8)}),
    "decreasing": ({"offsets": [0, 4, 3]}, {("DECREASES", "PAGE_OFFSETS", 2, 3, 4)}),
    "end": ({"offsets": [0, 1, 2]}, {("NOT_THE_END", "PAGE_OFFSETS", 2, 2, 3)}),
}


@pytest.mark.parametrize("name", PAGES)
def test_hstu_pages(call: Run, name: str) -> None:
    """Two sequences of 5 new tokens behind 1 and 2 pages of 8, of a cache of 4."""
    changes, expected = PAGES[name]
    problem = Problem(lengths=[5, 5])
    pages = {"offsets": [0, 1, 3], "ids": [1, 0, 2], "last": [8, 2]} | changes
    cache = np.ones((4, 2, 8, problem.heads, problem.dim), np.float32)
    attributes = problem.attributes()
    attributes[1] = 64
    tables = [np.array(pages[key]) for key in ("offsets", "ids", "last")]
    output = problem.empty(10, problem.heads, problem.dim)
    faults = no_faults()
    call(FORWARD.snake, FORWARD.type, *problem.inputs(), cache, *tables, faults, *attributes, output, faults)
    assert told(faults) == {("HSTU_DENSE_FORWARD", kind, ARGUMENT[a], *numbers) for kind, a, *numbers in expected}


def test_hstu_relative(call: Run, machine: None) -> None:
    problem = RelativeProblem(lengths=[25, 25])
    given = problem.inputs()
    given[7] = np.array([0, 30, 50])
    attributes = problem.attributes()
    attributes[1] = 29
    results = RELATIVE.results(problem, RELATIVE.outputs(problem))
    given[3] = np.ones(29, np.float32)
    faults = no_faults()
    call(RELATIVE.folder, RELATIVE.type, *given, faults, *attributes, results[0], faults)
    assert told(faults) == {("HSTU_RELATIVE_FORWARD", "TOO_LONG", ARGUMENT["MAX_SEQ_LEN"], 0, 30, 29)}
    attributes[1] = 0
    faults = no_faults()
    call(RELATIVE.folder, RELATIVE.type, *given, faults, *attributes, results[0], faults)
    assert told(faults) == {("HSTU_RELATIVE_FORWARD", "TOO_LONG", ARGUMENT["POSITION"], 0, 30, 29)}


JAGGED = {
    "sound": ([[0, 2, 2, 5]], set()),
    "starts behind": ([[1, 2, 2, 5]], set()),  # rows before the first belong to nobody
    "first": ([[-1, 2, 2, 5]], {("NEGATIVE", "LEVEL", 0, -1, 0)}),
    "decreasing": ([[0, 3, 2, 5]], {("DECREASES", "LEVEL", 2, 2, 3)}),
    "second level": ([[0, 1, 1, 2], [0, 4, 3]], {("DECREASES", "LEVEL + 1", 2, 3, 4)}),
    "levels disagree": ([[0, 1, 1, 3], [0, 4, 5]], {("NOT_THE_END", "LEVEL", 3, 3, 2)}),
}


def jagged_records(operator: str, expected: set[tuple]) -> set[tuple]:
    levels = {"LEVEL": ARGUMENT["LEVEL"], "LEVEL + 1": ARGUMENT["LEVEL"] + 1}
    return {(operator, kind, levels[argument], *numbers) for kind, argument, *numbers in expected}


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("name", JAGGED)
def test_jagged(call: Run, machine: None, name: str, index: type) -> None:
    levels, expected = JAGGED[name]
    offsets = [np.array(level, index) for level in levels]
    shape = (3, *(4 for _ in levels), 2)
    faults = no_faults()
    arguments = [np.ones((5, 2), np.int32), offsets, faults, Ints([4] * len(levels)), 0, np.zeros(shape, np.int32)]
    call("jagged_to_padded_dense", "JaggedToPaddedDense", *arguments, faults)
    assert told(faults) == jagged_records("JAGGED_TO_PADDED_DENSE", expected)
    faults = no_faults()
    arguments = [np.ones(shape, np.int32), offsets, faults, 5, np.zeros((5, 2), np.int32)]
    call("dense_to_jagged", "DenseToJagged", *arguments, faults)
    assert told(faults) == jagged_records("DENSE_TO_JAGGED", expected)


def test_jagged_beyond_the_values(call: Run) -> None:
    faults = no_faults()
    dense = np.zeros((2, 4, 2), np.int32)
    arguments = [np.ones((4, 2), np.int32), [np.array([0, 2, 5])], faults, Ints([4]), 0]
    call("jagged_to_padded_dense", "JaggedToPaddedDense", *arguments, dense, faults)
    assert told(faults) == jagged_records("JAGGED_TO_PADDED_DENSE", {("BEYOND", "LEVEL", 2, 5, 4)})


def lookup(call: Run, pooling: int, indices: list[int], offsets: list[int], faults: np.ndarray | None) -> np.ndarray:
    """Two features of width 4, of tables with 10 and 5 rows."""
    weights = np.arange(60, dtype=np.float32)
    bags = (len(offsets) - 1) // 2
    out = np.full((len(indices), 4) if pooling == NONE else (bags, 8), 7, np.float32)
    d_offsets = np.array([0, 4, 8], np.int32)
    tables = [weights, None, None, np.zeros(2, np.int32), np.array([0, 40]), d_offsets]
    arguments = [
        *tables,
        np.array(indices),
        np.array(offsets),
        None,
        None,
        None,
        None,
        faults,
        8,
        4,
        pooling,
        0,
        0,
        0,
        out,
    ]
    name = "split_embedding_codegen_forward_unweighted"
    call(name, "SplitEmbeddingCodegenForwardUnweighted", *arguments, faults)
    return out


LOOKUPS = {
    "sound": ([9, 0, 4, 1], [0, 1, 2, 3, 4], set()),
    "too large": ([9, 10, 4, 1], [0, 1, 2, 3, 4], {("OUT_OF_RANGE", "INDICES", 1, 10, 10)}),
    "of the second table": ([9, 0, 4, 5], [0, 1, 2, 3, 4], {("OUT_OF_RANGE", "INDICES", 3, 5, 5)}),
    "below zero": ([9, 0, -1, 1], [0, 1, 2, 3, 4], {("OUT_OF_RANGE", "INDICES", 2, -1, 5)}),
    "first offset": ([9, 0, 4, 1], [1, 1, 2, 3, 4], {("FIRST", "OFFSETS", 0, 1, 0)}),
    "last offset": ([9, 0, 4, 1], [0, 1, 2, 3, 3], {("NOT_THE_END", "OFFSETS", 4, 3, 4)}),
    "decreasing": ([1, 0, 4, 1], [0, 3, 2, 3, 4], {("DECREASES", "OFFSETS", 2, 2, 3)}),
}


@pytest.mark.parametrize("pooling", [SUM, NONE])
@pytest.mark.parametrize("name", LOOKUPS)
def test_lookup(call: Run, machine: None, name: str, pooling: int) -> None:
    indices, offsets, expected = LOOKUPS[name]
    if name == "decreasing" and pooling == NONE:
        expected = set()  # nothing depends on the offset of a bag inside of a feature
    faults = no_faults()
    out = lookup(call, pooling, indices, offsets, faults)
    assert told(faults) == {("EMBEDDING_FORWARD", kind, ARGUMENT[a], *numbers) for kind, a, *numbers in expected}
    assert (out == lookup(call, pooling, indices, offsets, None)).all()


def permute(call: Run, changes: dict, index: type = np.int64, length: type = np.int64) -> np.ndarray:
    """Faults of a permutation of three features by two bags; changes: of what it is given."""
    lengths = np.array(changes.get("lengths", [[2, 3], [1, 4], [0, 2]]), length)
    entries = np.array(changes.get("permute", [2, 0, 1]), index)
    sums = lengths.reshape(3, -1).astype(np.int64).sum(1)
    named = [sums[p] if 0 <= p < 3 else 0 for p in entries]
    starts, out_starts = starts_of(sums), starts_of(named)
    values, total = np.arange(changes.get("rows", 12)), changes.get("total", 12)
    results = [np.zeros((len(entries), *lengths.shape[1:]), length), np.zeros(total, values.dtype)]
    faults = no_faults()
    given = [entries, lengths, values, None, starts, out_starts, faults, total]
    call("permute2d_sparse_data", "Permute2dSparseData", *given, *results, np.zeros(0, np.float32), faults)
    return faults


PERMUTATIONS = {
    "sound": ({}, None),
    "too large": ({"permute": [0, 1, 3]}, ("OUT_OF_RANGE", "PERMUTE_ENTRIES", 2, 3, 3)),
    "below zero": ({"permute": [0, -1, 2]}, ("OUT_OF_RANGE", "PERMUTE_ENTRIES", 1, -1, 3)),
    "negative": ({"lengths": [[2, 3], [1, -4], [8, 2]]}, ("NEGATIVE", "LENGTHS", 3, -4, 2)),
    "negative of a vector": ({"lengths": [-1, 13, 0]}, ("NEGATIVE", "LENGTHS", 0, -1, 0)),
    "values too short": ({"rows": 11}, ("NOT_THE_END", "VALUES", 0, 11, 12)),
    "values too long": ({"rows": 13}, ("NOT_THE_END", "VALUES", 0, 13, 12)),
    "total too small": ({"total": 11}, ("NOT_THE_END", "PERMUTED_SUM", 0, 11, 12)),
    "total too large": ({"total": 13}, ("NOT_THE_END", "PERMUTED_SUM", 0, 13, 12)),
}


@pytest.mark.parametrize("types", [(np.int64, np.int64), (np.int32, np.int32)], ids=["int64", "int32"])
@pytest.mark.parametrize("name", PERMUTATIONS)
def test_permute(call: Run, machine: None, name: str, types: tuple[type, type]) -> None:
    changes, expected = PERMUTATIONS[name]
    found = told(permute(call, changes, *types))
    kinds = {} if expected is None else {("PERMUTE", expected[0], ARGUMENT[expected[1]], *expected[2:])}
    assert found == set(kinds)


# Where tiles of 8 KiB and shares of 16 KiB end, and in the padded block behind them.
@pytest.mark.parametrize("place", [0, 1023, 1024, 2047, 2048, 4095, 4096, 4098])
@pytest.mark.parametrize(("value", "kind"), [(-1, "NEGATIVE"), (-(2**62), "NEGATIVE"), (2**40, "TOO_LONG")])
def test_one_bad_length_of_many(call: Run, machine: None, place: int, value: int, kind: str) -> None:
    """The lowest core that tells, as the host reads the records: later ones tell of sums that are wrong by it."""
    lengths = np.full((3, 1367), 2**40 - 1)
    lengths[0, :] = 1
    lengths.flat[place] = value
    faults = permute_lengths(call, lengths)
    first = faults[faults[:, 0] != 0][0].tolist()
    assert told(first_of(first)) == {("PERMUTE", kind, ARGUMENT["LENGTHS"], place, value, 1367)}


def first_of(record: list[int]) -> np.ndarray:
    faults = no_faults()
    faults[0] = record
    return faults


def permute_lengths(call: Run, lengths: np.ndarray) -> np.ndarray:
    """Faults of a permutation that keeps one feature, of so many lengths; the others are only looked at."""
    starts = starts_of(lengths.sum(1))
    faults = no_faults()
    given = [np.array([0]), lengths, np.zeros(5, np.int64), None, starts, np.array([0, 5]), faults, 5]
    results = [np.zeros((1, lengths.shape[1]), np.int64), np.zeros(5, np.int64), np.zeros(0, np.float32)]
    call("permute2d_sparse_data", "Permute2dSparseData", *given, *results, faults)
    return faults


def test_large_sound_lengths(call: Run, machine: None) -> None:
    """2^40 - 1 is not absurd: only the sum is told to be wrong."""
    lengths = np.full((3, 1367), 2**40 - 1)
    found = told(permute_lengths(call, lengths))
    assert found == {("PERMUTE", "NOT_THE_END", ARGUMENT["VALUES"], 0, 5, int(lengths.sum()))}


BATCHES = {
    "sound": ([0, 1, 4], set()),
    "one table has none": ([0, 0, 4], set()),
    "first": ([1, 1, 4], {("FIRST", 0, 1, 0)}),
    "decreasing": ([0, 5, 4], {("DECREASES", 2, 4, 5)}),
    "below zero": ([0, -1, 4], {("DECREASES", 1, -1, 0)}),
    "last": ([0, 1, 3], {("NOT_THE_END", 2, 3, 4)}),
    "beyond 32 bits": ([0, 2**32, 4], {("DECREASES", 2, 4, 2**32)}),
}


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_a_bounds_check(call: Run, machine: None, name: str, mode: int) -> None:
    """Whatever the mode is: it says what is done about indices, not about tables."""
    bags, expected = BATCHES[name]
    faults, indices, offsets = no_faults(), np.array([0, 1, 2, 0, 2]), np.array([0, 2, 3, 4, 5])
    warning, report = np.zeros(1, np.int64), np.zeros(8, np.int64)
    given = [np.array([5, 5]), indices, offsets, warning, np.array(bags), faults, mode]
    call("bounds_check_indices", "BoundsCheckIndices", *given, indices, offsets, warning, report, faults)
    assert told(faults) == {("BOUNDS_CHECK", kind, ARGUMENT["B_OFFSETS"], *numbers) for kind, *numbers in expected}


def test_batches_of_many_tables(call: Run, machine: None) -> None:
    """Shared by the cores: each pair of neighbours is looked at by one, those at the borders too."""
    tables, bags = 50, 3000  # enough indices for four cores
    indices, offsets = np.zeros(13000, np.int64), np.arange(bags + 1)
    offsets[-1] = 13000
    for wrong in range(1, tables):
        first_bags = np.linspace(0, bags, tables + 1).astype(np.int64)
        first_bags[wrong] = first_bags[wrong - 1] - 1
        faults, warning, report = no_faults(), np.zeros(1, np.int64), np.zeros(8, np.int64)
        given = [np.full(tables, 9), indices, offsets, warning, first_bags, faults, 2]
        call("bounds_check_indices", "BoundsCheckIndices", *given, indices, offsets, warning, report, faults)
        numbers = (wrong, first_bags[wrong], first_bags[wrong - 1])
        assert told(faults) == {("BOUNDS_CHECK", "DECREASES", ARGUMENT["B_OFFSETS"], *numbers)}


def test_the_first_fault_stays_until_the_host_has_seen_it(call: Run) -> None:
    faults = no_faults()
    lookup(call, SUM, [10, 0, 4, 1], [0, 1, 2, 3, 4], faults)
    first = faults.copy()
    assert first.any()
    lookup(call, SUM, [11, 0, 4, 1], [0, 1, 2, 3, 4], faults)
    assert (faults == first).all()
