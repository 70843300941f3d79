"""Cases of the jagged operators and the prefix sum, with their results by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Comparison = tuple[str, Callable[[], Any], np.ndarray, float]  # what, its computation, expected, tolerance
EXACT = 0.0


def comparisons(device: Any) -> Iterator[Comparison]:
    """First the documents' worked examples, then random ones; all exact."""
    import torch

    ops = torch.ops.fbgemm

    def put(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(device)

    def cumsum(lengths: np.ndarray) -> Callable[[], Any]:
        return lambda: ops.asynchronous_complete_cumsum(put(lengths))

    def to_padded(values: np.ndarray, bounds: np.ndarray, longest: int, pad: float) -> Callable[[], Any]:
        return lambda: ops.jagged_to_padded_dense(put(values), [put(bounds)], [longest], pad)

    def to_jagged(dense: np.ndarray, bounds: np.ndarray, total: int | None) -> Callable[[], Any]:
        return lambda: ops.dense_to_jagged(put(dense), [put(bounds)], total)[0]

    def gradient(values: np.ndarray, bounds: np.ndarray, padded: np.ndarray) -> Callable[[], Any]:
        """Of to_padded at `values` towards `padded`."""

        def compute() -> Any:
            x = put(values).requires_grad_()
            ops.jagged_to_padded_dense(x, [put(bounds)], [padded.shape[1]], 0.0).backward(put(padded))
            return x.grad

        return compute

    yield "cumsum, example", cumsum(np.array([2, 3, 1, 4], np.int32)), np.array([0, 2, 5, 6, 10], np.int32), EXACT
    bounds, values = np.array([0, 2, 5, 6]), np.arange(1, 7)
    dense = np.zeros((3, 50), np.int64)
    dense[0, :2], dense[1, :3], dense[2, :1] = [1, 2], [3, 4, 5], [6]
    yield "to padded, example", to_padded(values, bounds, 50, 0.0), dense, EXACT
    yield "to jagged, example", to_jagged(dense[:, :10], bounds, None), values, EXACT

    rng = np.random.default_rng(0)
    # Rows: none, one, some empty, many; longest: shorter than some rows (truncation) and longer than all;
    # inner sizes below, at and above a 32-byte block, and one that is no multiple of it.
    for rows, longest, inner, kind in (
        (0, 5, 4, np.float32),
        (1, 7, 1, np.float32),
        (17, 3, 50, np.float32),
        (64, 40, 8, np.float16),
        (128, 200, 13, np.int64),
        (33, 20, 100, np.int32),
        (5, 9, 3, np.int8),
    ):
        lengths = rng.integers(0, 30, rows)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        name = f"{rows} rows, longest {longest}, inner {inner}, {np.dtype(kind).name}"
        yield f"cumsum, {name}", cumsum(lengths), bounds, EXACT
        values = rng.integers(-100, 100, (bounds[-1], inner)).astype(kind)
        padded, back = reference(values, bounds, longest, pad=7)
        yield f"to padded, {name}", to_padded(values, bounds, longest, 7.0), padded, EXACT
        yield f"to jagged, {name}", to_jagged(padded, bounds, int(bounds[-1])), back, EXACT
        if kind is np.float32:
            yield f"gradient of to padded, {name}", gradient(values, bounds, padded), back, EXACT


def reference(values: np.ndarray, bounds: np.ndarray, limit: int, pad: float) -> tuple[np.ndarray, np.ndarray]:
    """(padded, what to_jagged makes of padded): rows past `limit` are cut off, and come back as zeros."""
    padded = np.full((len(bounds) - 1, limit, values.shape[1]), pad, values.dtype)
    back = np.zeros_like(values)
    for row, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        kept = min(end - start, limit)
        padded[row, :kept] = values[start : start + kept]
        back[start : start + kept] = values[start : start + kept]
    return padded, back
