"""A permutation of feature blocks and its gradient, in NumPy (docs/operators.md)."""

from __future__ import annotations

import numpy as np


def starts_of(counts) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


class Permutation:
    """T features with B bags each, P copies with repeats and omissions."""

    def __init__(self, rng, features, batch, copies, longest, index="int64", lengths="int64"):
        self.lengths = (rng.integers(0, longest + 1, (features, batch)) * (rng.random((features, batch)) > 0.2)).astype(
            lengths
        )
        self.permute = rng.integers(0, features, copies).astype(index)
        self.describe()

    def describe(self):
        counts = self.lengths.sum(axis=1, dtype=np.int64)
        self.starts = starts_of(counts)
        self.out_starts = starts_of(counts[self.permute])
        self.rows, self.out_rows = int(self.starts[-1]), int(self.out_starts[-1])
        return self

    def forward(self, values):
        blocks = [values[self.starts[p] : self.starts[p + 1]] for p in self.permute]
        return np.concatenate([values[:0], *blocks])

    def backward(self, grad):
        result = np.zeros((self.rows, *grad.shape[1:]), grad.dtype)
        for copy, p in enumerate(self.permute):
            result[self.starts[p] : self.starts[p + 1]] += grad[self.out_starts[copy] : self.out_starts[copy + 1]]
        return result
