"""Sampling by a grid, cubic and antialiased resizing, columns of windows, beside float64 NumPy with their gradients."""

# ruff: noqa: B023 (`check` calls what it is given before the loop goes on)
from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numerical import Array, check, random, tell
from numpy_layers import resized


def cubic(distance: Array, a: float) -> Array:
    """The convolution kernel of bicubic interpolation: 1 at 0, 0 at 1 and from 2 on."""
    d = np.abs(distance)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, a * (((d - 5) * d + 8) * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def places(coordinate: Array, size: int, padding: str, corners: bool) -> Array:
    """Of coordinates from -1 to 1, in elements."""
    at = (coordinate + 1) / 2 * (size - 1) if corners else ((coordinate + 1) * size - 1) / 2
    return moved(at, size, padding, corners)


def moved(at: Array, size: int, padding: str, corners: bool) -> Array:
    if padding == "reflection":
        low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
        span = high - low
        turned = np.mod(at - low, 2 * span) if span else at * 0
        at = np.minimum(turned, 2 * span - turned) + low
    return np.clip(at, 0, size - 1) if padding != "zeros" else at


def taken(x: Array, index: tuple[Array, ...]) -> Array:
    """[C, ...points]: elements of one image, zero outside."""
    inside = np.all([(i >= 0) & (i < n) for i, n in zip(index, x.shape[1:])], axis=0)
    clipped = tuple(np.clip(i, 0, n - 1).astype(int) for i, n in zip(index, x.shape[1:]))
    return np.where(inside, x[(slice(None), *clipped)], 0)


def sampled(x: Array, grid: Array, mode: str, padding: str, corners: bool) -> Array:
    """[N, C, ...] at the points of `grid` [N, ..., dimensions], whose last is the first of the image."""
    results = []
    for image, points in zip(x, grid):
        sizes = image.shape[1:]
        raw = [points[..., -1 - dim] for dim in range(len(sizes))]
        if mode == "bicubic":  # the padding moves each of the 16 neighbours, not the point
            at = [places(c, n, "zeros", corners) for c, n in zip(raw, sizes)]
            first = [np.floor(a) for a in at]
            total = 0.0
            for steps in itertools.product(range(-1, 3), repeat=2):
                weight = np.prod([cubic(a - f - s, -0.75) for a, f, s in zip(at, first, steps)], axis=0)
                index = [moved(f + s, n, padding, corners) for f, s, n in zip(first, steps, sizes)]
                total = total + weight * taken(image, tuple(index))
            results.append(total)
            continue
        at = [places(c, n, padding, corners) for c, n in zip(raw, sizes)]
        if mode == "nearest":
            results.append(taken(image, tuple(np.rint(a) for a in at)))
            continue
        total = 0.0
        for steps in itertools.product((0, 1), repeat=len(sizes)):
            index = tuple(np.floor(a) + s for a, s in zip(at, steps))
            weight = np.prod([1 - np.abs(a - i) for a, i in zip(at, index)], axis=0)
            total = total + weight * taken(image, index)
        results.append(total)
    return np.stack(results)


def grids() -> None:
    for dims, mode, padding, corners in itertools.product(
        (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    ):
        if dims == 3 and mode == "bicubic":
            continue  # of planes alone
        x = random.normal(size=(2, 2, *[4, 5, 3][:dims]))
        grid = random.uniform(-1.3, 1.3, size=(2, *[3, 2, 2][:dims], dims)).astype(np.float32).astype(np.float64)
        case = f"grid_sample{dims}d {mode} {padding} {corners}"
        options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        points = torch.tensor(grid, dtype=torch.float32, device="npu")
        check(
            case,
            lambda t: F.grid_sample(t, points, **options),
            lambda a: sampled(a, grid, mode, padding, corners),
            x,
        )
        if mode == "bilinear" and padding == "zeros":
            values = torch.tensor(x, dtype=torch.float32, device="npu")
            check(
                f"{case} of the grid",
                lambda t: F.grid_sample(values, t, **options),
                lambda a: sampled(x.astype(np.float32).astype(np.float64), a, mode, padding, corners),
                grid,
            )
    theta = random.normal(size=(2, 2, 3))
    for corners in (False, True):

        def lines(a: Array) -> Array:
            sides = [np.linspace(-1, 1, n) if corners else (np.arange(n) * 2 + 1) / n - 1 for n in (4, 5)]
            y, x = np.meshgrid(*sides, indexing="ij")
            return np.einsum("nij,hwj->nhwi", a, np.stack((x, y, np.ones_like(x)), -1))

        check(f"affine_grid {corners}", lambda t: F.affine_grid(t, (2, 1, 4, 5), corners), lines, theta)


def smooth_weights(size: int, length: int, a: float, corners: bool) -> Array:
    """[size, length]: bicubic, what lies outside is the border."""
    at = np.arange(size) * (length - 1) / (size - 1) if corners else (np.arange(size) + 0.5) * length / size - 0.5
    weights = np.zeros((size, length))
    for row, place in enumerate(at):
        for neighbour in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            weights[row, np.clip(neighbour, 0, length - 1)] += cubic(np.array(place - neighbour), a)
    return weights


def antialiased(size: int, length: int, filter_of: Callable[[Array], Array]) -> Array:
    """The filter is as wide as an element of the result, and its weights are made to sum to 1."""
    scale = length / size
    at = (np.arange(size) + 0.5) * scale
    distance = (np.arange(length) + 0.5 - at[:, None]) / max(scale, 1.0)
    weights = filter_of(distance)
    return weights / weights.sum(1, keepdims=True)


def cubic_sizes() -> None:
    for size in (3, 7):
        x = random.normal(size=(1, 2, 5, 5))
        for corners in (False, True):
            check(
                f"bicubic to {size} {corners}",
                lambda t: F.interpolate(t, size, mode="bicubic", align_corners=corners),
                lambda a: resized(a, 2, size, lambda s, n: smooth_weights(s, n, -0.75, corners)),
                x,
            )
        filters = {"bilinear": lambda d: np.maximum(0, 1 - np.abs(d)), "bicubic": lambda d: cubic(d, -0.5)}
        for mode, filter_of in filters.items():
            check(
                f"{mode} antialiased to {size}",
                lambda t: F.interpolate(t, size, mode=mode, align_corners=False, antialias=True),
                lambda a: resized(a, 2, size, lambda s, n: antialiased(s, n, filter_of)),
                x,
            )


def columns() -> None:
    def folded(a: Array) -> Array:
        out = np.zeros((1, 2, 6, 5))
        blocks = a.reshape(1, 2, 2, 3, 3, 2)  # windows of 2 x 3 at steps of 2 and 2
        for i, j, y, x in np.ndindex(2, 3, 3, 2):
            out[:, :, y * 2 + i, x * 2 + j] += blocks[:, :, i, j, y, x]
        return out

    x = random.normal(size=(1, 12, 6))
    check("fold", lambda t: F.fold(t, (6, 5), (2, 3), stride=2), folded, x)


def main() -> None:
    for part in (grids, cubic_sizes, columns):
        part()
    tell()


if __name__ == "__main__":
    main()
