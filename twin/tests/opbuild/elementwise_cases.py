"""Operators of third parties that compute each element from those at its place."""

from __future__ import annotations

import numpy as np
from third_party_case import Case
from third_party_values import HALF, ROWS, floats, leaky, twice

WHOLE_BLOCKS = (8, 32, 40, 256)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bfloat16s(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [bfloat16(r.uniform(0.5, 3, n)) for _ in range(3)]


def masked(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.normal(size=(3, n)).astype(np.float32), r.integers(0, 2, (3, n)).astype(bool)]


def tiles(r: np.random.Generator, n: int) -> list[np.ndarray]:
    """y, and x whose every third tile of 256 is zeros."""
    y, x = r.normal(size=(2, n)).astype(np.float32)
    return [y, np.where(np.arange(n) // 256 % 3 == 1, 0, x)]


ELEMENTWISE = (
    Case("Exp", "exp", floats(), np.exp),
    Case("Exp", "exp", floats(**HALF), np.exp, tolerance=2e-3),
    Case("Log", "log", floats(low=0.1), np.log, (-1.0, 1.0, 0.0)),
    Case("Log", "log", floats(low=0.1), lambda x: np.log(2 * x + 0.5) / np.log(10), (10.0, 2.0, 0.5)),
    Case(
        "Heaviside",
        "heaviside",
        lambda r, n: [r.integers(-1, 2, n).astype(np.float32), np.array([0.25], np.float32)],
        lambda x, v: np.heaviside(x, v[0]),
    ),
    Case("LeakyReluCustom", "leaky_relu_custom", floats(), lambda x: leaky(x, 0.2), (0.2,)),
    Case("LeakyReluCustom", "leaky_relu_custom", floats(**HALF), lambda x: leaky(x, 0.2), (0.2,), tolerance=1e-3),
    Case("ClipByValue", "clip_by_value", floats(), lambda x: np.clip(x, -1, 0.5), (-1.0, 0.5)),
    Case(
        "ClipByValue",
        "clip_by_value",
        lambda r, n: [r.integers(-99, 99, n).astype(np.int32)],
        lambda x: np.clip(x, -7, 40),
        (-7, 40),
    ),
    Case("SubCustom", "sub_custom", twice(floats()), np.subtract),
    Case(
        "BitShift",
        "bit_shift",
        lambda r, n: [r.integers(-(2**31), 2**31, n).astype(np.int32)],
        lambda x: (x.astype(np.int64).astype(np.int32) << 3) >> 5,
        (3, 5),
    ),
    Case("GeluCustom", "gelu_custom", floats(), lambda x: x / (1 + np.exp(-1.702 * x))),
    Case("SigmoidCustom", "sigmoid_custom", floats(), lambda x: 1 / (1 + np.exp(-x))),
    Case("FloorCustom", "floor_custom", floats(low=-50, high=50), lambda x: x - np.floor(x / 3) * 3, tolerance=1e-5),
    Case("Reopened", "reopened", floats(), lambda x: 2 * np.maximum(x, 0)),
    Case("ReciprocalSqrt", "reciprocal_sqrt", floats(low=0.1), lambda x: 1 / np.sqrt(x)),
    Case("AddcdivCustom", "addcdiv_custom", bfloat16s, lambda x, a, b: x + 0.5 * a / b, tolerance=4e-3),
    Case("MaskedFill", "masked_fill", masked, lambda x, m: np.where(m, -1.5, x), (-1.5,), sizes=WHOLE_BLOCKS),
    Case("PowScalar", "pow_scalar", floats(), lambda x: x**2 + x**3, ("2,3",)),
    Case("AbsPadded", "abs_padded", floats(), np.abs, lenient=True),
    Case("AffineTemplate", "affine_template", floats(), lambda x: 2 * x, (2.0, 0.0), sizes=(1, 512, 513, 1999)),
    Case("AffineTemplate", "affine_template", floats(), lambda x: 2 * x + 0.5, (2.0, 0.5), sizes=(1, 512, 513, 1999)),
    Case(
        "AffineTemplate",
        "affine_template",
        floats(**HALF),
        lambda x: 2 * x + 0.5,
        (2.0, 0.5),
        sizes=(1, 512, 513, 1999),
        tolerance=1e-3,
    ),
    Case("HardShrinkCustom", "hard_shrink_custom", floats(), lambda x: np.where(abs(x) > 0.75, x, 0), (0.75,)),
    Case("HardShrinkCustom", "hard_shrink_custom", floats(**HALF), lambda x: np.where(abs(x) > 0.75, x, 0), (0.75,)),
    Case(
        "ChooseRows",
        "choose_rows",
        lambda r, n: [*r.normal(size=(3, 1, n)).astype(np.float32)],
        lambda x, a, b: np.where(a > b, np.where(x > 0, a, b), 0.5),
        sizes=ROWS,
        tolerance=0,
        lenient=True,
    ),
    Case("AxpyInPlace", "axpy_in_place", tiles, lambda y, x: y + 0.5 * x, (0.5,)),
)
