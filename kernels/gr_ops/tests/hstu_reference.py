"""HSTU attention as docs/operators.md defines it, in float64 NumPy; independent of every kernel."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def visible(
    n: int, context: int = 0, target: int = 0, group: int = 1, window: int = 0, min_full: int = 0, distance: int = -1
) -> NDArray[np.bool_]:
    """[n, n]: query i sees key j; contexts, targets, a window of max_attn_len or of window_size (distance)."""
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    history_end = n - target
    if window == 0:
        both_targets = (i >= history_end) & (j >= history_end)
        same_group = (i - history_end) // group == (j - history_end) // group
        near = np.ones((n, n), bool) if distance < 0 else i - j <= distance
        return ((j <= i) & near & ~(both_targets & ~same_group)) | ((i < context) & (j < history_end))
    last = history_end if context == 0 else n - context + 1 - target

    def folded(position: NDArray[np.int64]) -> NDArray[np.int64]:
        if context == 0:
            return np.minimum(position, last)
        return np.minimum(np.maximum(position - context + 1, 0), last)

    distance = folded(i) - folded(j)
    seen = (i == j) | (distance > 0)
    seen &= (distance <= window) | ((min_full > 0) & (folded(i) >= last - min_full))
    if context > 0:
        seen |= (folded(i) == 0) & (folded(j) < last)
    return seen


@dataclass
class Row:
    """One row of the batch: queries [m, N, D], keys [n, N, D], values [n, N, Dv]; mask and bias [N, n, n]."""

    q: Array
    k: Array
    v: Array
    scale: float
    alpha: float = 1.0
    mask_type: int = 0
    mask: Array | None = None
    bias: Array | None = None
    context: int = 0
    target: int = 0
    group: int = 1
    window: int = 0
    min_full: int = 0
    distance: int = -1
    weight: Array = field(init=False)

    def __post_init__(self) -> None:
        m, n, heads = len(self.q), len(self.k), self.q.shape[1]
        if self.mask_type == 0:
            square = visible(
                n, self.context, self.target, self.group, self.window, self.min_full, self.distance
            ).astype(np.float64)
        elif self.mask_type == 1:
            square = np.triu(np.ones((n, n)))
        else:
            square = np.ones((n, n))
        weight = np.broadcast_to(square, (heads, n, n)) if self.mask_type != 3 else self.mask
        self.weight = weight[:, n - m :, :]

    def _scores(self) -> tuple[Array, Array]:
        m, n = len(self.q), len(self.k)
        x = np.einsum("ihd,jhd->hij", self.q, self.k)
        if self.bias is not None:
            x = x + self.bias[:, n - m :, :]
        s = self.alpha * x
        with np.errstate(over="ignore"):
            return s, 1.0 / (1.0 + np.exp(-s))

    def _select(self, value: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.where(self.weight == 0, 0.0, value * self.weight)

    def output(self) -> Array:
        s, sigma = self._scores()
        return np.einsum("hij,jhd->ihd", self._select(s * sigma * self.scale), self.v)

    def gradients(self, grad: Array) -> tuple[Array, Array, Array, Array]:
        """Of q, k, v and of the bias, the last as [N, n, n]."""
        m, n, heads = len(self.q), len(self.k), self.q.shape[1]
        s, sigma = self._scores()
        p = self._select(s * sigma * self.scale)
        dp = np.einsum("ihd,jhd->hij", grad, self.v)
        dx = self.alpha * self._select(dp * self.scale * sigma * (1 + s * (1 - sigma)))
        dbias = np.zeros((heads, n, n))
        dbias[:, n - m :, :] = dx
        return (
            np.einsum("hij,jhd->ihd", dx, self.k),
            np.einsum("hij,ihd->jhd", dx, self.q),
            np.einsum("hij,ihd->jhd", p, grad),
            dbias,
        )


def square_of(tensor: Array | None, b: int, heads: int, n: int) -> Array | None:
    """Row b's [N, n, n] part of a [B or 1, N or 1, M, M] mask or bias."""
    if tensor is None:
        return None
    part = tensor[b if tensor.shape[0] > 1 else 0, :, :n, :n]
    return np.broadcast_to(part, (heads, n, n))


def batch(
    q: Array,
    k: Array,
    v: Array,
    offsets: list[int],
    offsets_k: list[int] | None = None,
    *,
    scale: float = 0.0,
    max_len: int = 0,
    mask: Array | None = None,
    bias: Array | None = None,
    context: list[int] | None = None,
    target: list[int] | None = None,
    **settings: float,
) -> list[Row]:
    """The rows of jagged q [L, N, D], k [Lk, N, D], v [Lk, N, Dv]. scale 0: 1 / max_len, or 1 / the longest row."""
    offsets_k = offsets if offsets_k is None else offsets_k
    longest = max_len or max(np.diff(offsets_k), default=0)
    rows = []
    for b in range(len(offsets) - 1):
        queries, keys = slice(offsets[b], offsets[b + 1]), slice(offsets_k[b], offsets_k[b + 1])
        n = offsets_k[b + 1] - offsets_k[b]
        rows.append(
            Row(
                q[queries],
                k[keys],
                v[keys],
                scale=scale or 1.0 / longest,
                mask=square_of(mask, b, q.shape[1], n),
                bias=square_of(bias, b, q.shape[1], n),
                context=context[b] if context else 0,
                target=target[b] if target else 0,
                **settings,
            )
        )
    return rows


def outputs(rows: list[Row]) -> Array:
    return np.concatenate([row.output() for row in rows])


def gradients(rows: list[Row], grad: Array, bias_shape: tuple[int, ...] | None = None) -> list[Array]:
    """Of q, k, v, and of the bias if its shape is given: summed where it is shared."""
    parts, start = [], 0
    for row in rows:
        parts.append(row.gradients(grad[start : start + len(row.q)]))
        start += len(row.q)
    result = [np.concatenate([part[i] for part in parts]) for i in range(3)]
    if bias_shape is not None:
        dbias = np.zeros(bias_shape)
        for b, part in enumerate(parts):
            n = part[3].shape[1]
            summed = part[3].sum(0, keepdims=True) if bias_shape[1] == 1 else part[3]
            dbias[b if bias_shape[0] > 1 else 0, :, :n, :n] += summed
        result.append(dbias)
    return result
