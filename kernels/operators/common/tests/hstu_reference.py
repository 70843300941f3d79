"""HSTU attention in float64, written from the definitions (docs/operators.md): every mask as a matrix."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BFLOAT16 = 27
CAUSAL, UPPER, FULL, CUSTOM = range(4)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True, kw_only=True)
class Options:
    mask_type: int = CAUSAL
    group: int = 0
    alpha: float = 1.0
    window: int = 0
    full_tail: int = 0
    distance: int = -1
    scale: float = 0.0
    longest: int = 0


def visible(n: int, options: Options, context: int = 0, targets: int = 0) -> np.ndarray:
    """m[i, j] of a sequence of n positions."""
    i, j = np.ogrid[:n, :n]
    if options.mask_type == UPPER:
        return (j >= i) & np.ones((n, n), bool)
    if options.mask_type != CAUSAL:
        return np.ones((n, n), bool)
    h = n - targets
    if options.window == 0:
        group = max(options.group, 1)
        other_group = (i >= h) & (j >= h) & ((i - h) // group != (j - h) // group)
        near = (i - j <= options.distance) if options.distance >= 0 else np.ones((n, n), bool)
        return ((j <= i) & near & ~other_group) | ((i < context) & (j < h))
    steps = h if context == 0 else h - context + 1
    step = np.arange(n) if context == 0 else np.maximum(np.arange(n) - context + 1, 0)
    step = np.minimum(step, steps)
    distance = step[:, None] - step[None, :]
    m = (i == j) | (distance > 0)
    near = distance <= options.window
    if options.full_tail > 0:
        near = near | (step[:, None] >= steps - options.full_tail)
    m &= near
    if context > 0:
        m |= (step[:, None] == 0) & (step[None, :] < steps)
    return m


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sequence: queries stand at the end of the keys. Heads first: q [N, m, D], k [N, n, D], v [N, n, Dv]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray | None = None  # [N, n, n]
    mask: np.ndarray | None = None
    context: int = 0
    targets: int = 0


@dataclass(frozen=True, kw_only=True)
class Gradients:
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scores: np.ndarray = field(repr=False)


def _weights(row: Row, options: Options):
    m, n = row.q.shape[1], row.k.shape[1]
    x = np.einsum("hid,hjd->hij", row.q, row.k)
    if row.bias is not None:
        x = x + row.bias[:, n - m : n, :n]
    s = options.alpha * x
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-s))
    seen = np.broadcast_to(visible(n, options, row.context, row.targets)[n - m :], x.shape)
    factor = options.scale * (row.mask[:, n - m : n, :n] if row.mask is not None else 1.0)
    factor = np.where(seen, factor, 0.0) * np.ones_like(x)
    return s, sigmoid, factor


def _select(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    """factor * values with 0 where the factor is 0, whatever the value."""
    return np.where(factor == 0, 0.0, factor * np.where(factor == 0, 0.0, values))


def forward(row: Row, options: Options) -> np.ndarray:
    s, sigmoid, factor = _weights(row, options)
    return np.einsum("hij,hjd->hid", _select(factor, s * sigmoid), row.v)


def backward(row: Row, options: Options, grad: np.ndarray) -> Gradients:
    s, sigmoid, factor = _weights(row, options)
    p = _select(factor, s * sigmoid)
    dp = np.einsum("hid,hjd->hij", grad, row.v)
    dx = options.alpha * _select(factor, dp * sigmoid * (1 + s * (1 - sigmoid)))
    return Gradients(
        q=np.einsum("hij,hjd->hid", dx, row.k),
        k=np.einsum("hij,hid->hjd", dx, row.q),
        v=np.einsum("hij,hid->hjd", p, grad),
        scores=dx,
    )
