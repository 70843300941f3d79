"""Permutations of feature blocks, gathers of single elements, and the check of indices."""

from __future__ import annotations

import numpy as np
from bounds_reference import INDEX, NOTHING, repair
from cases import Argument, Case, NoOutput, Output
from data_faults import ARGUMENT, KIND, OPERATOR, no_faults
from permute_reference import Permutation
from workshop import Operator

PERMUTE = Operator(
    "permute2d_sparse_data", "Permute2dSparseData", 13, {"DTYPE_PERMUTE": "int64_t", "DTYPE_LENGTHS": "int64_t"}
)
PERMUTE_GRAD = Operator(
    "permute2d_sparse_data_grad", "Permute2dSparseDataGrad", 10, {"DTYPE_GRAD": "float"}, PERMUTE.snake
)
GATHER = Operator("gather_for_rank1", "GatherForRank1", 5, {"DTYPE_INDEX": "int64_t"})
GATHER_GRAD = Operator(
    "index_select_for_rank1_backward",
    "IndexSelectForRank1Backward",
    7,
    {"DTYPE_GRAD_Y": "float", "DTYPE_INDEX": "int64_t"},
)
BOUNDS = Operator(
    "bounds_check_indices", "BoundsCheckIndices", 13, {"DTYPE_INDICES": "int64_t", "DTYPE_OFFSETS": "int64_t"}
)


def told(operator: str, kind: str, argument: str, place: int, value: int, limit: int) -> np.ndarray:
    """What the first core leaves."""
    faults = no_faults()
    faults[0, :6] = KIND[kind], OPERATOR[operator], ARGUMENT[argument], place, value, limit
    return faults


def permutation(features: int, batch: int, copies: int, longest: int) -> Permutation:
    return Permutation(np.random.default_rng(features + copies), features, batch, copies, longest)


def permute_case(
    name: str, case: Permutation, inner: int, dtype: str = "int32", weights: bool = False, extra: int = 0
) -> Case:
    """extra: rows of the result beyond the permuted ones, zeros."""
    rng = np.random.default_rng(inner)
    values = rng.integers(1, 100, (case.rows, inner)).astype(dtype)
    factors = rng.standard_normal(case.rows).astype(np.float32) if weights else None
    faults = None if extra else no_faults()
    inputs: list[Argument] = [case.permute, case.lengths, values, factors, case.starts, case.out_starts, faults]
    moved = np.concatenate([case.forward(values), np.zeros((extra, inner), values.dtype)])
    moved_factors = np.zeros(0, np.float32) if factors is None else case.forward(factors)
    outputs: list[Argument] = [Output(case.lengths[case.permute]), Output(moved), Output(moved_factors)]
    results = NoOutput() if faults is None else Output(no_faults(), updates=6)
    return Case(name, [*inputs, case.out_rows + extra, *outputs, results])


def permute_fault_case(name: str, fault: tuple[str, str, int, int, int], extra: int = 0, entry: int = 2) -> Case:
    """On one core: one of 31 x 3 lengths, an entry or a size is wrong; the results are not compared."""
    case = permutation(31, 3, 9, 4)
    case.permute[4] = 2
    case.describe()
    case.permute[4] = entry
    if fault[0] == "NEGATIVE":
        case.lengths.flat[fault[2]] = fault[3]
    values = np.ones((case.rows, 1), np.float32)
    out = [
        Output(a, compared=False) for a in (np.zeros((9, 3), np.int64), np.ones((case.out_rows + extra, 1), np.float32))
    ]
    inputs: list[Argument] = [case.permute, case.lengths, values, None, case.starts, case.out_starts, no_faults()]
    kind, argument, *numbers = fault
    if argument == "PERMUTED_SUM":
        numbers = [0, case.out_rows + extra, case.out_rows]
    faults = Output(told("PERMUTE", kind, argument, *numbers), updates=6)
    return Case(name, [*inputs, case.out_rows + extra, *out, Output(np.zeros(0, np.float32)), faults])


def permute_grad_case(name: str, case: Permutation, inner: int) -> Case:
    grad = np.random.default_rng(inner).integers(-50, 50, (case.out_rows, inner)).astype(np.float32)
    order = np.argsort(case.permute, kind="stable")
    given = [grad, case.permute[order], order, case.starts, case.out_starts, no_faults(), case.rows]
    return Case(name, [*given, Output(case.backward(grad)), Output(no_faults(), updates=5)])


def permute_grad_fault_case(name: str, fault: tuple[str | int, ...], entry: int = 1, rows: int = 0) -> Case:
    """Three features of two rows each; `entry` stands for the second one, and grad has `rows` rows more."""
    permute = np.array([2, entry, 0])
    order = np.argsort(permute, kind="stable")
    out_starts = np.array([0, 2, 4 if 0 <= entry < 3 else 2, 6 if 0 <= entry < 3 else 4])
    grad = np.ones((int(out_starts[-1]) + rows, 1), np.float32)
    given = [grad, permute[order], order, np.array([0, 2, 4, 6]), out_starts, no_faults(), 6]
    faults = Output(told("PERMUTE_GRADIENT", *fault), updates=5)
    return Case(name, [*given, Output(np.zeros((6, 1), np.float32), compared=False), faults])


def wrong_starts_case(operator: Operator) -> Case:
    """Block starts that point outside: the kernel must stay inside its tensors, whatever it writes."""
    starts, permute = np.array([0, 2**40, -(2**40), 9]), np.array([2, 0, 1])
    out = Output(np.zeros((9, 1), np.float32), compared=False)
    if operator is PERMUTE_GRAD:
        given = [np.ones((9, 1), np.float32), np.arange(3), permute, starts, starts, None, 9]
        return Case("wrong starts", [*given, out, NoOutput()])
    lengths = np.array([[2], [3], [4]])
    empty = Output(np.zeros(0, np.float32))
    moved = [Output(lengths[permute]), out, empty]
    return Case(
        "wrong starts",
        [permute, lengths, np.ones((9, 1), np.float32), None, starts, starts, None, 9, *moved, NoOutput()],
    )


def gather_case(name: str, length: int, count: int, dtype: str = "float32", outside: int = 0) -> Case:
    """outside: the first so many indices are no elements of x."""
    rng = np.random.default_rng(length + count)
    x = rng.integers(1, 2000, length).astype(dtype)
    index = rng.integers(0, length, count)
    index[:outside] = rng.choice([-1, length, length + 10000, 2**40, -(2**40)], outside)
    y = np.where((index >= 0) & (index < length), x[np.clip(index, 0, length - 1)], 0).astype(dtype)
    return Case(name, [x, index, Output(y)])


def gather_grad_case(name: str, length: int, count: int, is_sorted: bool = False) -> Case:
    rng = np.random.default_rng(length + count)
    index = rng.integers(-2, length + 2, count)
    index = np.sort(index) if is_sorted else index
    grad = rng.integers(-8, 9, count).astype(np.float32)
    inside = (index >= 0) & (index < length)
    sums = np.zeros(length, np.float32)
    np.add.at(sums, index[inside], grad[inside])
    return Case(
        name, [grad, np.zeros(length, np.float32), index, is_sorted, Output(sums), Output(np.zeros_like(index))]
    )


def bounds_case(
    name: str, rows: list[int], lengths: np.ndarray, wrong: int, mode: int = 1, ragged: bool = False
) -> Case:
    """lengths of the bags, features first; `wrong` indices and some offsets are not what they should be."""
    rng = np.random.default_rng(len(lengths))
    batch = len(lengths) // len(rows)
    bags = [batch * t for t in range(len(rows) + 1)]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    limits = np.repeat(np.repeat(rows, batch), lengths)
    indices = (rng.random(len(limits)) * limits).astype(np.int64)
    indices[rng.choice(len(indices), len(indices) // 100)] = -1
    if wrong:
        indices[rng.choice(len(indices), wrong, replace=False)] = rng.choice([-2, 2**40, -(2**31)], wrong)
        indices[-5] = 2**40
        offsets[[len(lengths) // 3, len(lengths) // 2, len(lengths) - 1, len(lengths)]] = [-1, 3, 2**31, 3]
    repaired, repaired_offsets, found, bad = repair(rows, indices.tolist(), offsets.tolist(), bags)
    first = (found + bad)[0] if wrong else (NOTHING, 0, 0, 0, 0)
    report = [len(found) + len(bad), *first, rows[first[1]] if first[0] == INDEX else 0, 0]
    warning = np.array([-9])
    results = [
        Output(np.array(repaired), updates=1),
        Output(np.array(repaired_offsets), updates=2),
        Output(np.array([report[0]] if mode == 1 else [-9]), updates=3),
        Output(np.array(report)),
    ]
    first_bags = np.array(bags, np.int64) if ragged else None
    results.append(Output(no_faults(), updates=5))
    return Case(name, [np.array(rows), indices, offsets, warning, first_bags, no_faults(), mode, *results])


def batches_case(name: str, bags: list[int], *fault: str | int) -> Case:
    """On one core: b_offsets of three tables with four bags; what is repaired by them is not compared."""
    indices, offsets, warning = np.array([0, 1, 2, 0]), np.arange(5), np.array([-9])
    arrays = (indices, offsets, warning, np.zeros(8, np.int64))
    results = [Output(a, compared=False, updates=place) for a, place in zip(arrays, (1, 2, 3, -1), strict=True)]
    faults = Output(told("BOUNDS_CHECK", *fault), updates=5)
    given = [np.full(3, 5), indices, offsets, warning, np.array(bags, np.int64), no_faults(), 2]
    return Case(name, [*given, *results, faults])


def bag_lengths(bags: int) -> np.ndarray:
    lengths = np.random.default_rng(bags).integers(0, 6, bags)
    lengths[bags // 4] += 3000  # one bag over several tiles
    return lengths


# Shares of several cores with rows that end in the middle of 32 bytes; rows of lengths short and long.
PERMUTE_CASES = [
    permute_case("odd inner and weights", permutation(31, 3, 90, 20), 17, weights=True),
    permute_case("long rows of lengths", permutation(11, 40, 30, 3), 5, dtype="float16"),
    permute_case("many short rows of lengths", permutation(70, 3, 800, 1), 1, dtype="int8"),
    permute_case("more rows than lengths", permutation(5, 2, 9, 30), 64, extra=7),
    permute_fault_case("negative length", ("NEGATIVE", "LENGTHS", 79, -3, 3)),
    permute_fault_case("entry of no feature", ("OUT_OF_RANGE", "PERMUTE_ENTRIES", 4, 31, 31), entry=31),
    permute_fault_case("sum that the lengths do not have", ("NOT_THE_END", "PERMUTED_SUM", 0, 0, 0), extra=2),
    wrong_starts_case(PERMUTE),
]
PERMUTE_GRAD_CASES = [
    permute_grad_case("repeats", permutation(11, 2, 40, 20), 65),
    permute_grad_case("blocks beyond a tile of sums", permutation(4, 2, 6, 9), 700),
    permute_grad_fault_case("entry beyond the features", ("OUT_OF_RANGE", "PERMUTE_ENTRIES", 1, 3, 3), entry=3),
    permute_grad_fault_case("entry below zero", ("OUT_OF_RANGE", "PERMUTE_ENTRIES", 1, -1, 3), entry=-1),
    permute_grad_fault_case("more rows than the lengths have", ("NOT_THE_END", "GRAD", 0, 7, 6), rows=1),
    wrong_starts_case(PERMUTE_GRAD),
]
# x in the unified buffer, x read where it lies; elements of 2, 4 and 8 bytes.
GATHER_CASES = [
    gather_case("resident", 333, 3001, outside=9),
    gather_case("resident halves", 77, 2500, dtype="float16"),
    gather_case("resident pairs", 101, 1100, dtype="int64", outside=5),
    gather_case("distant", 30000, 7000, outside=7),
    gather_case("distant pairs", 20000, 30, dtype="int64"),
]
# Images of x, slices of x with an index as it comes and with a sorted one.
GATHER_GRAD_CASES = [
    gather_grad_case("images", 301, 8200),
    gather_grad_case("slices", 20001, 2100),
    gather_grad_case("sorted slices", 20001, 2100, is_sorted=True),
    gather_grad_case("one slice", 7, 300),
]
BOUNDS_CASES = [
    bounds_case("broken", [10, 100000, 1, 2**34], bag_lengths(4400), 9),
    bounds_case("sound", [10, 7, 100000], bag_lengths(600), 0, ragged=True),
    batches_case("batches that start late", [1, 2, 3, 4], "FIRST", "B_OFFSETS", 0, 1, 0),
    batches_case("batches that decrease", [0, 3, 2, 4], "DECREASES", "B_OFFSETS", 2, 2, 3),
    batches_case("batches that end early", [0, 1, 2, 3], "NOT_THE_END", "B_OFFSETS", 3, 3, 4),
    bounds_case("repaired silently", [50, 3], bag_lengths(40), 3, mode=2),
]
CASES = {
    PERMUTE: PERMUTE_CASES,
    PERMUTE_GRAD: PERMUTE_GRAD_CASES,
    GATHER: GATHER_CASES,
    GATHER_GRAD: GATHER_GRAD_CASES,
    BOUNDS: BOUNDS_CASES,
}
