"""NumPy float64 references of the embedding operators, written from their formulas (docs/operators.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

SUM, MEAN, NONE = 0, 1, 2
# Weights and results by (numpy storage, tensor code, tolerance): bfloat16 lies in uint16.
FLOAT, HALF, BFLOAT16 = "float32", "float16", "bfloat16"
TOLERANCE = {FLOAT: 1e-5, HALF: 2e-3, BFLOAT16: 1e-2}


def to_storage(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to dtype; bfloat16 as its bits, nearest even."""
    if dtype != BFLOAT16:
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_storage(stored: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != BFLOAT16:
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@dataclass
class Tables:
    """Tables in one flat buffer, features that look rows up in them."""

    rows: Sequence[int]
    dims: Sequence[int]
    features: Sequence[int] = ()  # table of each feature; empty: one each
    starts: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.features = list(self.features or range(len(self.rows)))
        sizes = [r * d for r, d in zip(self.rows, self.dims)]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def elements(self) -> int:
        return int(self.starts[-1])

    @property
    def weights_offsets(self) -> np.ndarray:
        return self.starts[:-1][self.features]

    @property
    def feature_dims(self) -> list[int]:
        return [self.dims[t] for t in self.features]

    @property
    def d_offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.feature_dims)]).astype(np.int32)

    @property
    def hash_size_cumsum(self) -> np.ndarray:
        firsts = np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int64)
        return np.concatenate([firsts[:-1][self.features], firsts[-1:]])

    def bags(self, offsets: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
        """(feature, sample, first index, end)."""
        batch = (len(offsets) - 1) // len(self.features)
        for bag in range(len(offsets) - 1):
            yield bag // batch, bag % batch, int(offsets[bag]), int(offsets[bag + 1])

    def position(self, feature: int, row: int) -> slice:
        """Of a row in the flat buffer."""
        dim = self.feature_dims[feature]
        start = int(self.weights_offsets[feature]) + row * dim
        return slice(start, start + dim)

    def valid(self, feature: int, row: int) -> bool:
        return 0 <= row < self.rows[self.features[feature]]


def forward(tables: Tables, weights, indices, offsets, pooling: int, factors=None) -> np.ndarray:
    weights = np.asarray(weights, np.float64)
    batch = (len(offsets) - 1) // len(tables.features)
    out = np.zeros((len(indices), max(tables.dims)) if pooling == NONE else (batch, int(tables.d_offsets[-1])))
    for t, b, first, end in tables.bags(offsets):
        columns = slice(tables.d_offsets[t], tables.d_offsets[t + 1])
        for k in range(first, end):
            if not tables.valid(t, int(indices[k])):
                continue
            row = weights[tables.position(t, int(indices[k]))]
            if pooling == NONE:
                out[k] = row
            else:
                out[b, columns] += (1 if factors is None else factors[k]) * row
        if pooling == MEAN and end > first:
            out[b, columns] /= end - first
    return out


def aggregate(tables: Tables, grad, indices, offsets, pooling: int, factors=None, max_gradient=None) -> dict:
    """{(table, row): (feature, gradient)} of every row that occurs."""
    grad = np.asarray(grad, np.float64)
    if max_gradient is not None:
        grad = np.clip(grad, -max_gradient, max_gradient)
    result: dict = {}
    for t, b, first, end in tables.bags(offsets):
        columns = slice(tables.d_offsets[t], tables.d_offsets[t + 1])
        for k in range(first, end):
            row = int(indices[k])
            if not tables.valid(t, row):
                continue
            g = grad[k] if pooling == NONE else grad[b, columns]
            g = g * (1 if factors is None else factors[k]) / (end - first if pooling == MEAN else 1)
            key = (tables.features[t], row)
            result[key] = (t, result[key][1] + g if key in result else g)
    return result


def weight_gradient(tables: Tables, weights, grad, indices, offsets, pooling: int) -> np.ndarray:
    """Gradient of the per-sample weights, with the weights of the forward pass."""
    result = np.zeros(len(indices))
    for t, b, first, end in tables.bags(offsets):
        for k in range(first, end):
            row = np.asarray(weights, np.float64)[tables.position(t, int(indices[k]))]
            columns = slice(tables.d_offsets[t], tables.d_offsets[t + 1])
            result[k] = np.dot(np.asarray(grad, np.float64)[b, columns], row) / (end - first if pooling == MEAN else 1)
    return result


@dataclass
class Optimizer:
    name: str
    learning_rate: float = 0.1
    eps: float = 1e-8
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    weight_decay_mode: int = 0
    max_norm: float = 0.0

    def step(self, w, m1, m2, g, iteration: int):
        """(w, m1, m2) of one row after one step; m1 is a scalar for row-wise Adagrad."""
        lr, decay = self.learning_rate, self.weight_decay
        if self.name == "sgd":
            return w - lr * g, m1, m2
        if self.name == "adagrad":
            m1 = m1 + g * g
            return w - lr * g / (np.sqrt(m1) + self.eps), m1, m2
        if self.name == "rowwise_adagrad":
            decayed = g + decay * w if self.weight_decay_mode == 1 else g
            m1 = m1 + np.mean(decayed * decayed)
            rate = lr / (np.sqrt(m1) + self.eps)
            keep = {1: 1 - rate * decay, 2: 1 - lr * decay, 5: 1 - lr * decay}.get(self.weight_decay_mode, 1)
            w = keep * w - rate * g
            norm = np.linalg.norm(w)
            return (w * self.max_norm / norm if 0 < self.max_norm < norm else w), m1, m2
        assert self.name == "adam"
        m1 = self.beta1 * m1 + (1 - self.beta1) * g
        m2 = self.beta2 * m2 + (1 - self.beta2) * g * g
        hat1, hat2 = m1 / (1 - self.beta1**iteration), m2 / (1 - self.beta2**iteration)
        return w - lr * (hat1 / (np.sqrt(hat2) + self.eps) + decay * w), m1, m2

    def states(self, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
        sizes = {"sgd": (0, 0), "adagrad": (1, 0), "rowwise_adagrad": (-1, 0), "adam": (1, 1)}[self.name]
        size = {0: 0, 1: tables.elements, -1: sum(tables.rows)}
        return np.zeros(size[sizes[0]]), np.zeros(size[sizes[1]])

    def state_offsets(self, tables: Tables) -> np.ndarray:
        return tables.hash_size_cumsum[:-1] if self.name == "rowwise_adagrad" else tables.weights_offsets

    def apply(self, tables: Tables, weights, m1, m2, gradients: dict, iteration: int = 1) -> None:
        """All rows in place."""
        for (_, row), (t, g) in gradients.items():
            at = tables.position(t, row)
            state = int(tables.hash_size_cumsum[t]) + row if self.name == "rowwise_adagrad" else at
            one = m1[state] if len(m1) else 0
            two = m2[at] if len(m2) else 0
            weights[at], new1, new2 = self.step(weights[at], one, two, g, iteration)
            if len(m1):
                m1[state] = new1
            if len(m2):
                m2[at] = new2


def random_bags(rng: np.random.Generator, tables: Tables, batch: int, longest: int, hot: float = 0.0):
    """(indices, offsets): bags up to `longest`, some empty; a share `hot` of the indices is row 0."""
    lengths = rng.integers(0, longest + 1, batch * len(tables.features)) * (
        rng.random(batch * len(tables.features)) > 0.2
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = np.zeros(int(offsets[-1]), np.int64)
    for t, _, first, end in tables.bags(offsets):
        drawn = rng.integers(0, tables.rows[tables.features[t]], end - first)
        indices[first:end] = np.where(rng.random(end - first) < hot, 0, drawn)
    return indices, offsets
