"""Operators of third parties that reduce rows: sums, norms, softmax, their gradients, sorts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from third_party_case import Case
from third_party_values import HALF, ROWS, floats, matrix, softmax, twice


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def weighted(r: np.random.Generator, n: int) -> list[np.ndarray]:
    return [r.normal(size=shape).astype(np.float32) for shape in ((5, n), (n,), (n,))]


def weighted_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return layer_norm(x) * gamma + beta


def root_mean_square(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gamma


def softmax_and_gradient(dtype: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    return lambda r, n: [a.astype(dtype) for a in (softmax(r.normal(size=(5, n))), r.normal(size=(5, n)))]


def softmax_gradient(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return (dy - (y * dy).sum(-1, keepdims=True)) * y


def norm_and_gradient(dtype: str) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    """x, the result's gradient, the rows' variances and means, gamma."""

    def make(r: np.random.Generator, n: int) -> list[np.ndarray]:
        x, dy = r.normal(size=(2, 5, n)).astype(dtype)
        wide = x.astype(np.float64)
        return [x, dy, *(a.astype(dtype) for a in (wide.var(-1), wide.mean(-1), r.normal(size=n)))]

    return make


def norm_gradient(
    x: np.ndarray, dy: np.ndarray, variance: np.ndarray, mean: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    inverse = 1 / np.sqrt(variance + 1e-2)[:, None]
    normed, g = (x - mean[:, None]) * inverse, dy * gamma
    # The mean that is given is rounded, so that the normed rows' sum is not 0.
    of_mean = g.mean(-1, keepdims=True) - (g * normed).mean(-1, keepdims=True) * normed.mean(-1, keepdims=True)
    return (g - of_mean - normed * (g * normed).mean(-1, keepdims=True)) * inverse


def weight_gradients(
    x: np.ndarray, dy: np.ndarray, variance: np.ndarray, mean: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    normed = (x - mean[:, None]) / np.sqrt(variance + 1e-2)[:, None]
    return np.stack([(dy * normed).sum(0), dy.sum(0)])


def moments(x: np.ndarray) -> np.ndarray:
    return np.stack([x.mean(-1), x.var(-1)], -1)


def deviations(x: np.ndarray) -> np.ndarray:
    return np.stack([x.mean(-1), 1 / np.sqrt(x.var(-1) + 1e-3)])


def above_mean(x: np.ndarray) -> np.ndarray:
    return x > x.mean(-1, keepdims=True)


ROW_CASES = (
    Case("RowSum", "row_sum", floats(matrix), lambda x: x.sum(-1), sizes=ROWS, tolerance=1e-5),
    Case("RowSum", "row_sum", floats(matrix, **HALF), lambda x: x.sum(-1), sizes=ROWS, tolerance=2e-2),
    Case("ArgMax", "arg_max", floats(matrix), lambda x: x.argmax(-1), sizes=ROWS, lenient=True),
    Case(
        "ArgMax",
        "arg_max",
        lambda r, n: [np.ones((2, n), np.float32)],
        lambda x: x.argmax(-1),
        sizes=(1, 200),
        lenient=True,
    ),
    Case("SoftmaxCustom", "softmax_custom", floats(matrix), softmax, sizes=ROWS, lenient=True),
    Case("SoftmaxCustom", "softmax_custom", floats(matrix, **HALF), softmax, sizes=ROWS, tolerance=1e-3, lenient=True),
    Case("LayerNormCustom", "layer_norm_custom", floats(matrix), layer_norm, sizes=ROWS[1:], tolerance=2e-5),
    Case("LogSumExp", "log_sum_exp", floats(matrix), lambda x: np.log(np.exp(x).sum(-1)), sizes=ROWS, lenient=True),
    Case("BlockMax", "block_max", floats(matrix), lambda x: x.max(-1), sizes=(64, 128, 448)),
    Case("MseLossCustom", "mse_loss_custom", twice(floats()), lambda x, y: ((x - y) ** 2).mean(), ("mean",)),
    Case("MseLossCustom", "mse_loss_custom", twice(floats()), lambda x, y: ((x - y) ** 2).sum(), ("sum",)),
    Case("SoftmaxLibrary", "softmax_library", floats(matrix), softmax, sizes=ROWS),
    Case("SoftmaxLibrary", "softmax_library", floats(matrix, **HALF), softmax, sizes=ROWS, tolerance=1e-3),
    Case("LayerNormLibrary", "layer_norm_library", weighted, weighted_norm, (1e-5,), sizes=ROWS[1:], tolerance=2e-5),
    Case(
        "RmsNormLibrary",
        "rms_norm_library",
        lambda r, n: weighted(r, n)[:2],
        root_mean_square,
        (1e-5,),
        sizes=ROWS,
        tolerance=1e-5,
    ),
    Case("SoftmaxGradLibrary", "softmax_grad_library", softmax_and_gradient("float32"), softmax_gradient, sizes=ROWS),
    Case(
        "SoftmaxGradLibrary",
        "softmax_grad_library",
        softmax_and_gradient("float16"),
        softmax_gradient,
        sizes=ROWS,
        tolerance=1e-3,
    ),
    *(
        Case(
            "LayerNormGradLibrary",
            "layer_norm_grad_library",
            norm_and_gradient(dtype),
            norm_gradient,
            (1e-2,),
            sizes=ROWS,
            tolerance=tolerance,
        )
        for dtype, tolerance in (("float32", 2e-5), ("float16", 2e-2))
    ),
    Case(
        "NormWeightsGrad",
        "norm_weights_grad",
        norm_and_gradient("float32"),
        weight_gradients,
        (1e-2,),
        sizes=ROWS,
        tolerance=2e-5,
    ),
    Case("RowMoments", "row_moments", floats(matrix, low=2), moments, sizes=(1, 63, 64, 65, 1000), tolerance=1e-5),
    Case("RowMoments", "row_moments", floats(matrix, **HALF), moments, sizes=(7, 128, 1000), tolerance=1e-5),
    Case("RowDeviations", "row_deviations", floats(matrix), deviations, (1e-3,), sizes=ROWS, tolerance=1e-5),
    Case("RowDeviations", "row_deviations", floats(matrix, **HALF), deviations, (1e-3,), sizes=ROWS, tolerance=1e-5),
    Case("AboveMean", "above_mean", floats(matrix), above_mean, sizes=(1, 7, 32, 64, 1000), tolerance=0, lenient=True),
    Case(
        "AboveMean", "above_mean", floats(matrix, **HALF), above_mean, sizes=(1, 7, 32, 320), tolerance=0, lenient=True
    ),
    Case("SortRows", "sort_rows", floats(matrix), lambda x: -np.sort(-x, -1), sizes=ROWS, tolerance=0),
)
