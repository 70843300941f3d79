"""Random HSTU problems: the tensors an operator gets, and the same numbers in float64 for the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from aclnn_host import Bits
from hstu_reference import BFLOAT16, CUSTOM, Options, Row, backward, forward, from_bfloat16, to_bfloat16

# atol = rtol per type (docs/operators.md).
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """values as the operator's memory holds them."""
    return to_bfloat16(values) if dtype == "bfloat16" else values.astype(dtype)


def read(array: np.ndarray, dtype: str) -> np.ndarray:
    return (from_bfloat16(array) if dtype == "bfloat16" else array).astype(np.float64)


def wrap(array: np.ndarray | None, dtype: str):
    return Bits(array, BFLOAT16) if array is not None and dtype == "bfloat16" else array


def offsets_of(lengths: Sequence[int], dtype: str) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


@dataclass(kw_only=True)
class Problem:
    """lengths: queries per sequence. key_lengths: keys, None for as many. square: size of bias and mask."""

    lengths: Sequence[int]
    heads: int = 2
    dim: int = 32
    value_dim: int | None = None
    dtype: str = "float32"
    layout: str = "jagged"
    options: Options = Options()
    key_lengths: Sequence[int] | None = None
    bias: tuple[bool, bool] | None = None  # (per batch row, per head)
    mask: tuple[bool, bool] | None = None
    mask_dtype: str | None = None
    slack: int = 0  # of bias and mask over the longest sequence
    contexts: Sequence[int] | None = None
    targets: Sequence[int] | None = None
    index: str = "int64"
    seed: int = 0
    longest: int | None = None  # max_seq_len; None: the longest sequence
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.value_dim = self.dim if self.value_dim is None else self.value_dim
        keys = self.lengths if self.key_lengths is None else self.key_lengths
        self.keys = list(keys)
        self.size = max([*self.keys, 1]) + self.slack
        for name, rows, width in (
            ("q", sum(self.lengths), self.dim),
            ("k", sum(self.keys), self.dim),
            ("v", sum(self.keys), self.value_dim),
            ("grad", sum(self.lengths), self.value_dim),
        ):
            self.arrays[name] = stored(rng.uniform(-1, 1, (rows, self.heads, width)), self.dtype)
        for name, shape in (("bias", self.bias), ("mask", self.mask)):
            if shape is not None:
                dims = (len(self.lengths) if shape[0] else 1, self.heads if shape[1] else 1, self.size, self.size)
                values = rng.uniform(-1, 1, dims)
                if name == "mask":
                    values = np.where(rng.random(dims) < 0.5, 0.0, values)
                if name == "mask" and self.mask_dtype == "uint8":
                    self.arrays[name] = (values != 0).astype(np.uint8)
                else:
                    self.arrays[name] = stored(values, self.dtype)
        if self.longest is None:
            self.longest = max([*self.keys, 1])

    def value(self, name: str) -> np.ndarray:
        array = self.arrays[name]
        return array.astype(np.float64) if array.dtype == np.uint8 else read(array, self.dtype)

    def resolved(self) -> Options:
        options = self.options
        return Options(**{**options.__dict__, "scale": options.scale or 1.0 / self.longest})

    def rows(self) -> list[tuple[slice, slice, Row]]:
        """(query rows, key rows, sequence in float64)."""
        result = []
        queries, keys = offsets_of(self.lengths, "int64"), offsets_of(self.keys, "int64")
        for b in range(len(self.lengths)):
            own, other = slice(queries[b], queries[b + 1]), slice(keys[b], keys[b + 1])
            n = self.keys[b]

            def square(name: str, b=b, n=n) -> np.ndarray | None:
                if name not in self.arrays or (name == "mask" and self.options.mask_type != CUSTOM):
                    return None
                values = self.value(name)
                values = values[b if values.shape[0] > 1 else 0]
                return np.broadcast_to(values, (self.heads, *values.shape[1:]))[:, :n, :n]

            result.append(
                (
                    own,
                    other,
                    Row(
                        q=self.value("q")[own].transpose(1, 0, 2),
                        k=self.value("k")[other].transpose(1, 0, 2),
                        v=self.value("v")[other].transpose(1, 0, 2),
                        bias=square("bias"),
                        mask=square("mask"),
                        context=0 if self.contexts is None else self.contexts[b],
                        targets=0 if self.targets is None else self.targets[b],
                    ),
                )
            )
        return result

    def expected_output(self) -> np.ndarray:
        """[L, N, Dv] in float64."""
        output = np.zeros((sum(self.lengths), self.heads, self.value_dim))
        for own, _, row in self.rows():
            output[own] = forward(row, self.resolved()).transpose(1, 0, 2)
        return output

    def expected_gradients(self) -> dict[str, np.ndarray]:
        """Of q, k, v and, where there is one, bias, in float64."""
        expected = {name: np.zeros(self.arrays[name].shape) for name in ("q", "k", "v", "bias") if name in self.arrays}
        for b, (own, other, row) in enumerate(self.rows()):
            gradients = backward(row, self.resolved(), self.value("grad")[own].transpose(1, 0, 2))
            expected["q"][own] = gradients.q.transpose(1, 0, 2)
            expected["k"][other] = gradients.k.transpose(1, 0, 2)
            expected["v"][other] = gradients.v.transpose(1, 0, 2)
            if "bias" in expected:
                target = expected["bias"][b if expected["bias"].shape[0] > 1 else 0]
                scores = gradients.scores if target.shape[0] > 1 else gradients.scores.sum(0, keepdims=True)
                m, n = scores.shape[1:]
                target[:, n - m : n, :n] += scores
        return expected

    def shaped(self, array: np.ndarray) -> np.ndarray:
        """[L, N, D] as the layout wants it."""
        if self.layout == "jagged":
            return array
        return array.reshape(len(self.lengths), self.lengths[0] if len(self.lengths) else 0, *array.shape[1:])

    def inputs(self) -> list:
        """q, k, v, mask, attn_bias, seq_offset, seq_offset_k, num_context, num_target."""
        index = lambda values: None if values is None else np.asarray(values, self.index)  # noqa: E731
        mask = self.arrays.get("mask")
        return [
            *(wrap(self.shaped(self.arrays[name]), self.dtype) for name in ("q", "k", "v")),
            mask if self.mask_dtype == "uint8" else wrap(mask, self.dtype),
            wrap(self.arrays.get("bias"), self.dtype),
            offsets_of(self.lengths, self.index) if self.layout == "jagged" else None,
            None if self.key_lengths is None else offsets_of(self.keys, self.index),
            index(self.contexts),
            index(self.targets),
        ]

    def attributes(self) -> list:
        o = self.options
        return [
            o.mask_type,
            self.longest,
            float(o.scale),
            self.layout,
            o.group,
            float(o.alpha),
            o.window,
            o.full_tail,
            o.distance,
        ]

    def empty(self, *shape: int) -> np.ndarray:
        """An output that must be written: its bytes are not zero."""
        return np.full(shape, 7, np.uint16 if self.dtype == "bfloat16" else self.dtype)


def assert_close(given: np.ndarray, expected: np.ndarray, dtype: str, what: str = "") -> None:
    values = read(given, dtype)
    assert values.shape == expected.shape
    tolerance = TOLERANCE[dtype]
    bad = ~(np.abs(values - expected) <= tolerance + tolerance * np.abs(expected))
    assert not bad.any(), (
        f"{what}: {int(bad.sum())} of {bad.size} differ, first at {np.argwhere(bad)[0]}: "
        f"{values[bad][0]} instead of {expected[bad][0]}"
    )
