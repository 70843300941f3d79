"""Random problems of the operators around HSTU's attention, and their results in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hstu_problem import read, stored, wrap

EPS = 1e-6
BETWEEN = ("x", "out")  # rows between layers
# One type for all arrays, or rows between layers of float32 beside what the cube multiplies.
TYPES = [
    {"dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "bfloat16"},
    {"dtype": "float16", "rows": "float32"},
    {"dtype": "bfloat16", "rows": "float32"},
]
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of 1 and of the result

Arrays = dict[str, np.ndarray]


def norm(x: np.ndarray, eps: float = EPS) -> tuple[np.ndarray, np.ndarray]:
    """Rows without their mean and with deviation 1; and one over the deviations [L, 1]."""
    centred = x - x.mean(1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + eps)
    return centred * inverse, inverse


def norm_gradient(x: np.ndarray, grad: np.ndarray, eps: float = EPS) -> np.ndarray:
    normed, inverse = norm(x, eps)
    return inverse * (grad - grad.mean(1, keepdims=True) - normed * (grad * normed).mean(1, keepdims=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def assert_close(given: np.ndarray, expected: np.ndarray, dtype: str, what: str, computed: str = "") -> None:
    """`computed`: the type of what was multiplied, where that is not `dtype`."""
    values = read(given, dtype)
    limit = TOLERANCE[computed or dtype] * (1 + np.abs(expected))
    wrong = ~(np.abs(values - expected) <= limit)
    assert not wrong.any(), f"{what}: {np.argwhere(wrong)[:3]} {values[wrong][:3]} for {expected[wrong][:3]}"


@dataclass(kw_only=True)
class Layer:
    """L tokens; arrays as the operator's memory holds them. `rows`: the type of rows between layers, if not `dtype`."""

    tokens: int
    dtype: str = "float32"
    rows: str = ""
    eps: float = EPS
    arrays: Arrays = field(default_factory=dict, repr=False)

    def draw(self, **shapes: tuple[int, ...]) -> None:
        """Of deviation 1; a matrix that multiplies, of one over the root of its depth: `weight`."""
        rng = np.random.default_rng(sum(map(sum, shapes.values())))
        for name, shape in shapes.items():
            scale = (sum(shape) / 2) ** -0.5 if name == "weight" else 1.0
            self.arrays[name] = stored(rng.normal(0, scale, shape), self.type_of(name))

    def type_of(self, name: str) -> str:
        return (self.rows if name in BETWEEN else "") or self.dtype

    def value(self, name: str) -> np.ndarray:
        return read(self.arrays[name], self.type_of(name))

    def inputs(self, *names: str) -> list:
        return [wrap(self.arrays[name], self.type_of(name)) for name in names]

    def empty(self, *shape: int, name: str = "") -> np.ndarray:
        return stored(np.full(shape, 7.0), self.type_of(name))


@dataclass(kw_only=True)
class Gate(Layer):
    """Attended, u [L, V]; x, grad [L, D]; weight [D, V]."""

    width: int
    dim: int
    dropped: bool = True

    def __post_init__(self) -> None:
        rows, out = (self.tokens, self.width), (self.tokens, self.dim)
        self.draw(attended=rows, u=rows, x=out, grad=out, weight=(self.dim, self.width), bias=(self.dim,))
        rng = np.random.default_rng(self.width)
        self.keep = (rng.random(rows) < 0.7).astype(np.uint8) if self.dropped else None
        self.scale = 1 / 0.7 if self.dropped else 1.0

    @property
    def factor(self) -> np.ndarray:
        kept = np.ones((self.tokens, self.width)) if self.keep is None else self.keep.astype(np.float64)
        return kept * np.float32(self.scale)

    def gated(self) -> np.ndarray:
        return norm(self.value("attended"), self.eps)[0] * self.value("u") * self.factor

    def expected_output(self) -> np.ndarray:
        return self.value("x") + self.gated() @ self.value("weight").T + self.value("bias")

    def expected_gradients(self) -> Arrays:
        """Of attended and u; and the gated rows."""
        attended = self.value("attended")
        of_gated = self.value("grad") @ self.value("weight") * self.factor
        return {
            "attended": norm_gradient(attended, of_gated * self.value("u"), self.eps),
            "u": of_gated * norm(attended, self.eps)[0],
            "gated": self.gated(),
        }


@dataclass(kw_only=True)
class Projection(Layer):
    """x [L, D], weight [D, E]; E columns in parts."""

    dim: int
    split: Sequence[int]

    def __post_init__(self) -> None:
        width = sum(self.split)
        self.draw(x=(self.tokens, self.dim), weight=(self.dim, width), grad=(self.tokens, width))

    def grads(self) -> list[np.ndarray]:
        """The gradient, a contiguous array for each part."""
        ends = np.cumsum(self.split)[:-1]
        return [np.ascontiguousarray(part) for part in np.split(self.arrays["grad"], ends, axis=1)]

    def products(self) -> np.ndarray:
        return norm(self.value("x"), self.eps)[0] @ self.value("weight")

    def expected_output(self) -> list[np.ndarray]:
        products = self.products()
        return np.split(products * sigmoid(products), np.cumsum(self.split)[:-1], axis=1)

    def expected_gradients(self) -> Arrays:
        """Of x; the normed rows; the gradient of the products."""
        products = self.products()
        s = sigmoid(products)
        of_products = self.value("grad") * s * (1 + products * (1 - s))
        of_normed = of_products @ self.value("weight").T
        return {
            "x": norm_gradient(self.value("x"), of_normed, self.eps),
            "normed": norm(self.value("x"), self.eps)[0],
            "products": of_products,
        }
