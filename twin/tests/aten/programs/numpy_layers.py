"""Pooling, padding, resizing, distances, activations and lists of tensors on the emulated NPU, with gradients, beside
float64 NumPy and SciPy; prints as JSON the greatest difference of each, and the aclnn functions that were called."""

# ruff: noqa: B023 (`check` calls what it is given before the loop goes on)
from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import scipy.spatial.distance
import scipy.special
import torch
import torch.nn.functional as F
from numerical import Array, check, difference, random, rows, tell


def pooled(x: Array, dims: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool, how: str) -> Array:
    """By the definition, a window at a time. `how`: max, mean (over the padding too), inner (without it)."""
    spatial = x.shape[-dims:]
    reach = dilation * (kernel - 1) + 1
    sizes = []
    for size in spatial:
        windows = (size + 2 * padding - reach + (stride - 1 if ceil else 0)) // stride + 1
        sizes.append(windows - 1 if ceil and (windows - 1) * stride >= size + padding else windows)
    out = np.empty((*x.shape[:-dims], *sizes))
    for place in np.ndindex(*sizes):
        inside, room = [], 1
        for dim, at in enumerate(place):
            first = at * stride - padding
            room *= min(first + kernel, spatial[dim] + padding) - first
            inside.append([i for i in range(first, first + reach, dilation) if 0 <= i < spatial[dim]])
        values = np.stack([x[(..., *chosen)] for chosen in itertools.product(*inside)], -1)
        divisor = room if how == "mean" else values.shape[-1]
        out[(..., *place)] = values.max(-1) if how == "max" else values.sum(-1) / divisor
    return out


def adaptive(x: Array, dims: int, size: int, how: Callable[..., Array]) -> Array:
    for axis in range(x.ndim - dims, x.ndim):
        length = x.shape[axis]
        spans = [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]
        x = np.stack([how(x.take(range(*span), axis), axis=axis) for span in spans], axis)
    return x


def resized(x: Array, dims: int, size: int, weight: Callable[[int, int], Array]) -> Array:
    """Each of the last dimensions by its matrix [size, length]."""
    for axis in range(x.ndim - dims, x.ndim):
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ weight(size, x.shape[axis]).T, -1, axis)
    return x


def nearest(size: int, length: int, shift: float = 0.0) -> Array:
    places = np.minimum(np.floor((np.arange(size) + shift) * length / size).astype(int), length - 1)
    return np.eye(length)[places]


def smooth(size: int, length: int, corners: bool) -> Array:
    at = np.arange(size) * (length - 1) / (size - 1) if corners else (np.arange(size) + 0.5) * length / size - 0.5
    at = np.clip(at, 0, length - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(length)))


def pooling() -> None:
    for dims, max_pool, avg_pool in (
        (1, F.max_pool1d, F.avg_pool1d),
        (2, F.max_pool2d, F.avg_pool2d),
        (3, F.max_pool3d, F.avg_pool3d),
    ):
        size = 7 if dims < 3 else 6
        x = random.permutation(2 * size**dims).reshape(1, 2, *[size] * dims) / 10  # distinct: one maximum a window
        for kernel, stride, padding, dilation, ceil in ((3, 2, 1, 1, False), (2, 2, 0, 2, True), (3, 3, 1, 1, True)):
            case = (kernel, stride, padding, dilation, ceil)
            check(
                f"max_pool{dims}d {case}",
                lambda t: max_pool(t, kernel, stride, padding, dilation, ceil),
                lambda a: pooled(a, dims, *case, "max"),
                x,
            )
            if dilation == 1:
                for inner in (False, True):
                    check(
                        f"avg_pool{dims}d {case} {inner}",
                        lambda t: avg_pool(t, kernel, stride, padding, ceil, not inner),
                        lambda a: pooled(a, dims, *case, "inner" if inner else "mean"),
                        x,
                    )
    for dims in (1, 2, 3):
        x = random.permutation(2 * 5**dims).reshape(1, 2, *[5] * dims) / 10
        mean, most = getattr(F, f"adaptive_avg_pool{dims}d"), getattr(F, f"adaptive_max_pool{dims}d")
        if dims < 3:  # torch_npu's adaptive_avg_pool3d is for one element in each dimension
            check(f"adaptive_avg_pool{dims}d", lambda t: mean(t, 3), lambda a: adaptive(a, dims, 3, np.mean), x)
        check(f"adaptive_max_pool{dims}d", lambda t: most(t, 3), lambda a: adaptive(a, dims, 3, np.max), x)


def padding() -> None:
    for dims, mode in itertools.product((1, 2, 3), ("reflect", "replicate")):
        x = random.normal(size=(2, 2, *[4] * dims))
        sizes = [1, 2, 3, 0, 2, 1][: 2 * dims]
        widths = [(0, 0), (0, 0), *reversed([(sizes[2 * i], sizes[2 * i + 1]) for i in range(dims)])]
        of_numpy = {"reflect": "reflect", "replicate": "edge"}[mode]
        check(f"pad{dims}d {mode}", lambda t: F.pad(t, sizes, mode), lambda a: np.pad(a, widths, of_numpy), x)


def resizing() -> None:
    for dims, size in itertools.product((1, 2, 3), (3, 7)):
        x = random.normal(size=(1, 2, *[4] * dims))
        check(
            f"nearest{dims}d to {size}",
            lambda t: F.interpolate(t, size, mode="nearest"),
            lambda a: resized(a, dims, size, nearest),
            x,
        )
        check(
            f"nearest-exact{dims}d to {size}",
            lambda t: F.interpolate(t, size, mode="nearest-exact"),
            lambda a: resized(a, dims, size, lambda s, n: nearest(s, n, 0.5)),
            x,
        )
        mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[dims]
        for corners in (False, True):
            check(
                f"{mode} to {size} {corners}",
                lambda t: F.interpolate(t, size, mode=mode, align_corners=corners),
                lambda a: resized(a, dims, size, lambda s, n: smooth(s, n, corners)),
                x,
            )
    x = random.normal(size=(1, 2, 5, 4))
    windows = np.lib.stride_tricks.sliding_window_view
    check(
        "unfold",
        lambda t: F.unfold(t, (2, 3)),
        lambda a: windows(a, (2, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3).reshape(1, 12, -1),
        x,
    )
    check(
        "channel_shuffle",
        lambda t: F.channel_shuffle(t, 3),
        lambda a: a.reshape(2, 3, 2, 2, 3).swapaxes(1, 2).reshape(2, 6, 2, 3),
        random.normal(size=(2, 6, 2, 3)),
    )
    check("Tensor.unfold", lambda t: t.unfold(2, 3, 2), lambda a: windows(a, 3, 2)[:, :, ::2], x)


def distances() -> None:
    x, other = random.normal(size=(4, 3)), random.normal(size=(5, 3)).astype(np.float32)
    names: dict[float, tuple[str, dict[str, float]]] = {
        1.0: ("cityblock", {}),
        1.5: ("minkowski", {"p": 1.5}),
        2.0: ("euclidean", {}),
        3.0: ("minkowski", {"p": 3}),
        float("inf"): ("chebyshev", {}),
    }
    for p, (name, options) in names.items():
        check(
            f"cdist {p}",
            lambda t: torch.cdist(t, torch.tensor(other).npu(), p, "donot_use_mm_for_euclid_dist"),
            lambda a: scipy.spatial.distance.cdist(a, other.astype(np.float64), name, **options),
            x,
        )
    found = torch.logspace(-2, 3, 11, base=3.0, device="npu").cpu().numpy()
    rows["logspace"] = float(np.max(np.abs(found / np.logspace(-2, 3, 11, base=3.0) - 1)))


def activations() -> None:
    x = random.normal(size=(3, 4)) * 2
    slope = torch.tensor([0.3], device="npu")
    functions: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[Array], Array]]] = {
        "celu": (lambda t: F.celu(t, 1.3), lambda a: np.where(a > 0, a, 1.3 * np.expm1(a / 1.3))),
        "hardshrink": (lambda t: F.hardshrink(t, 0.6), lambda a: np.where(np.abs(a) > 0.6, a, 0)),
        "softshrink": (lambda t: F.softshrink(t, 0.6), lambda a: np.sign(a) * np.maximum(np.abs(a) - 0.6, 0)),
        "hardsigmoid": (F.hardsigmoid, lambda a: np.clip(a / 6 + 0.5, 0, 1)),
        "hardswish": (F.hardswish, lambda a: a * np.clip(a / 6 + 0.5, 0, 1)),
        "mish": (F.mish, lambda a: a * np.tanh(np.logaddexp(0, a))),
        "threshold": (lambda t: F.threshold(t, 0.2, -3.0), lambda a: np.where(a > 0.2, a, -3.0)),
        "prelu": (lambda t: F.prelu(t, slope), lambda a: np.where(a > 0, a, np.float32(0.3) * a)),
        "logit": (lambda t: torch.logit(t, 1e-3), lambda a: scipy.special.logit(np.clip(a, 1e-3, 1 - 1e-3))),
        "erfc": (torch.erfc, scipy.special.erfc),
        "sinc": (torch.sinc, np.sinc),
        "logaddexp": (lambda t: torch.logaddexp(t, t * t), lambda a: np.logaddexp(a, a * a)),
    }
    for name, (on_npu, reference) in functions.items():
        check(name, on_npu, reference, scipy.special.expit(x) if name == "logit" else x)


def lists() -> None:
    values = [random.uniform(0.1, 0.9, size=shape) for shape in ((3, 4), (5,), ())]
    tensors = [torch.tensor(value, dtype=torch.float32, device="npu") for value in values]
    functions = {
        "acos": np.arccos,
        "asin": np.arcsin,
        "atan": np.arctan,
        "cos": np.cos,
        "cosh": np.cosh,
        "erf": scipy.special.erf,
        "erfc": scipy.special.erfc,
        "expm1": np.expm1,
        "log": np.log,
        "log10": np.log10,
        "log1p": np.log1p,
        "log2": np.log2,
        "sigmoid": scipy.special.expit,
        "sin": np.sin,
        "sinh": np.sinh,
        "tan": np.tan,
        "tanh": np.tanh,
        "ceil": np.ceil,
        "floor": np.floor,
        "trunc": np.trunc,
        "round": np.round,
        "frac": lambda a: a - np.trunc(a),
    }
    halves = torch.arange(-7, 8, device="npu") / 2
    rows["_foreach_round halves"] = difference(torch._foreach_round([halves])[0], np.round(np.arange(-7, 8) / 2))
    pairs = {"minimum": np.minimum, "maximum": np.maximum, "pow": np.power}

    def differs(found: list[torch.Tensor], wanted: list[Array]) -> float:
        return max(difference(f, w) for f, w in zip(found, wanted))

    for name, function in functions.items():
        rows[f"_foreach_{name}"] = differs(getattr(torch, f"_foreach_{name}")(tensors), [function(v) for v in values])
    for name, pair in pairs.items():
        both = getattr(torch, f"_foreach_{name}")
        rows[f"_foreach_{name} list"] = differs(both(tensors, tensors), [pair(v, v) for v in values])
        rows[f"_foreach_{name} scalar"] = differs(both(tensors, 0.5), [pair(v, 0.5) for v in values])
        rows[f"_foreach_{name} scalars"] = differs(
            both(tensors, [0.2, 0.5, 1.5]), [pair(v, s) for v, s in zip(values, (0.2, 0.5, 1.5))]
        )


def main() -> None:
    for part in (pooling, padding, resizing, distances, activations, lists):
        part()
    tell()


if __name__ == "__main__":
    main()
