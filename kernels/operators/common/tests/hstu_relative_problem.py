"""Random problems with a relative bias, the operators' calls, and the reference in float64 from the definition:

bias[q, k] = position[max(min(q, h) - min(k, h), 0)] + time[bucket of times[q] - times[k]], h tokens before the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from data_faults import no_faults
from hstu_problem import Problem, assert_close, offsets_of, wrap
from hstu_reference import Row, backward

FIRST_CELL = 1016  # the upper 12 bits of 1.0f
CELLS = 512


def edges(count: int, ratio: float = 1.35) -> np.ndarray:
    """[count] float32: from how many seconds on each bucket holds; the first holds what is below the second."""
    steps = [2.0, 3.0, 4.0, *(5 * ratio**n for n in range(count))]
    return np.array([-np.inf, *steps])[:count].astype(np.float32)


def bucket(seconds: np.ndarray, edges_T: np.ndarray) -> np.ndarray:
    """Of int64 differences, which wrap as PyTorch's do."""
    return np.searchsorted(edges_T, seconds.astype(np.float32), side="right") - 1


def cells(edges_T: np.ndarray) -> np.ndarray:
    """The table that the operators take: for each cell the bucket at its start and where the next one begins."""
    starts = ((np.arange(CELLS, dtype=np.int64) + FIRST_CELL) << 20).astype(np.uint32).view(np.float32)
    first = np.searchsorted(edges_T, starts, side="right") - 1
    inside = np.full(CELLS, np.inf, np.float32)
    for edge in edges_T[1:]:
        cell = (int(edge.view(np.uint32)) >> 20) - FIRST_CELL
        if edge > starts[cell]:
            assert np.isinf(inside[cell]), "two buckets begin in one cell"
            inside[cell] = edge
    return (inside.view(np.uint32).astype(np.int64) << 32) + first


@dataclass(kw_only=True)
class RelativeProblem(Problem):
    """positions: entries of the position table beyond the longest sequence's; buckets: of the time table."""

    buckets: int = 40
    more_positions: int = 5
    gap: float = 28.0  # gaps between tokens are up to 2^gap
    ascending: bool = True
    times: Sequence[int] | None = None
    edges_T: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        rng = np.random.default_rng(self.seed + 1)
        self.edges_T = edges(self.buckets)
        self.arrays["position"] = rng.uniform(-1, 1, self.size + self.more_positions).astype(np.float32)
        self.arrays["time"] = rng.uniform(-1, 1, self.buckets).astype(np.float32)
        gaps = (2 ** (rng.random(sum(self.lengths)) * self.gap) - 1).astype(np.int64)
        moments = 10**9 + np.concatenate(
            [np.cumsum(part) for part in np.split(gaps, offsets_of(self.lengths, int)[1:-1])]
        )
        if not self.ascending:
            moments = rng.permutation(moments)
        self.moments = np.asarray(moments if self.times is None else self.times, np.int64)

    def value(self, name: str) -> np.ndarray:
        return self.arrays[name].astype(np.float64) if name in ("position", "time") else super().value(name)

    def indices(self, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Distance and bucket of each cell of a sequence."""
        n = self.lengths[b]
        history = n - (0 if self.targets is None else self.targets[b])
        place = np.minimum(np.arange(n), history)
        start = offsets_of(self.lengths, int)[b]
        times = self.moments[start : start + n]
        with np.errstate(over="ignore"):
            seconds = times[:, None] - times[None, :]
        return np.maximum(place[:, None] - place[None, :], 0), bucket(seconds, self.edges_T)

    def rows(self) -> list[tuple[slice, slice, Row]]:
        result = []
        for b, (own, other, row) in enumerate(super().rows()):
            distance, of_time = self.indices(b)
            bias = self.value("position")[distance] + self.value("time")[of_time]
            result.append((own, other, replace(row, bias=np.broadcast_to(bias, (self.heads, *bias.shape)))))
        return result

    def expected_gradients(self) -> dict[str, np.ndarray]:
        expected = super().expected_gradients()
        for name in ("position", "time"):
            expected[name] = np.zeros(self.arrays[name].shape)
        for b, (own, _, row) in enumerate(self.rows()):
            scores = backward(row, self.resolved(), self.value("grad")[own].transpose(1, 0, 2)).scores.sum(0)
            for name, index in zip(("position", "time"), self.indices(b)):
                np.add.at(expected[name], index, scores)
        return expected

    def inputs(self) -> list:
        """q, k, v, position, time, times, cells, seq_offset, num_context, num_target."""
        q, k, v, _, _, offsets, _, contexts, targets = super().inputs()
        tables = [self.arrays["position"], self.arrays["time"], self.moments, cells(self.edges_T)]
        return [q, k, v, *tables, offsets, contexts, targets]


Arrays = dict[str, np.ndarray]
FAULTS = 10  # their place among the arguments of the forward operator


@dataclass(frozen=True)
class Relative:
    """Q, k, v and tables -> the output."""

    snake: str = "hstu_relative_forward"
    type: str = "HstuRelativeForward"
    folder: str = "hstu_dense_forward"

    def outputs(self, problem: RelativeProblem) -> Arrays:
        return {"output": problem.empty(sum(problem.lengths), problem.heads, problem.value_dim)}

    def arguments(self, problem: RelativeProblem, inputs: list | None = None) -> list:
        return [*(problem.inputs() if inputs is None else inputs), None, *problem.attributes()]

    def expected(self, problem: RelativeProblem) -> Arrays:
        return {"output": problem.expected_output()}

    def results(self, problem: RelativeProblem, outputs: Arrays) -> list:
        return [wrap(problem.shaped(outputs["output"]), problem.dtype), None]  # nobody asks for faults


@dataclass(frozen=True)
class RelativeGradients:
    """Grad, q, k, v and tables -> the gradients of q, k, v and of both tables."""

    snake: str = "hstu_relative_backward"
    type: str = "HstuRelativeBackward"
    folder: str = "hstu_dense_backward"

    def outputs(self, problem: RelativeProblem) -> Arrays:
        tables = {name: np.full(problem.arrays[name].shape, 7, np.float32) for name in ("position", "time")}
        return {name: problem.empty(*problem.arrays[name].shape) for name in "qkv"} | tables

    def arguments(self, problem: RelativeProblem, inputs: list | None = None) -> list:
        grad = wrap(problem.shaped(problem.arrays["grad"]), problem.dtype)
        return [grad, *(problem.inputs() if inputs is None else inputs), *problem.attributes()]

    def expected(self, problem: RelativeProblem) -> Arrays:
        return problem.expected_gradients()

    def results(self, problem: RelativeProblem, outputs: Arrays) -> list:
        rows = [wrap(problem.shaped(outputs[name]), problem.dtype) for name in "qkv"]
        return [*rows, outputs["position"], outputs["time"]]


RelativeOperator = Relative | RelativeGradients
FORWARD, BACKWARD = Relative(), RelativeGradients()
Call = Callable[..., None]


def run(call: Call, operator: RelativeOperator, problem: RelativeProblem, inputs: list | None = None) -> Arrays:
    outputs = operator.outputs(problem)
    arguments, results = operator.arguments(problem, inputs), operator.results(problem, outputs)
    faults = no_faults()
    if isinstance(operator, Relative) and inputs is None:
        arguments[FAULTS], results[-1] = faults, faults
    call(operator.folder, operator.type, *arguments, *results)
    assert not faults.any(), f"sound data is called wrong: {faults[faults[:, 0] > 0]}"
    return outputs


def assert_sums_close(given: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Sums over many cells in float32: an error counts against the largest of them."""
    error, largest = np.abs(given - expected).max(), np.abs(expected).max()
    assert error <= 2e-5 * largest + 1e-6, f"{what}: off by {error} where the largest is {largest}"


def check(call: Call, operator: RelativeOperator, problem: RelativeProblem) -> Arrays:
    """Runs it and compares with the definition in float64."""
    outputs = run(call, operator, problem)
    expected = operator.expected(problem)
    for name, given in outputs.items():
        if name in ("position", "time"):
            assert_sums_close(given, expected[name], f"{name} of {problem}")
        else:
            assert_close(given, expected[name], problem.dtype, f"{name} of {problem}")
    return outputs
