"""Samples to the emulated NPU, results back, and their comparison."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

NPU = torch.device("npu:0")


class Mismatch(Exception):
    """What the NPU gave is not what the CPU gave; `values` if only the numbers differ."""

    def __init__(self, text: str, *, values: bool = False) -> None:
        super().__init__(text)
        self.values = values


def _tensor_to_npu(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        return tensor
    if tensor.layout is not torch.strided:
        return tensor.detach().to(NPU).requires_grad_(tensor.requires_grad)
    source = tensor.detach()
    if source.is_conj() or source.is_neg() or source.is_nested:
        return source.to(NPU).requires_grad_(tensor.requires_grad)
    # The same storage with the same view on it: sizes, strides and offset are part of the case.
    storage = torch.empty(0, dtype=source.dtype).set_(source.untyped_storage())
    copied = storage.to(NPU).as_strided(source.size(), source.stride(), source.storage_offset())
    return copied.requires_grad_(tensor.requires_grad)


def to_npu(tree: Any) -> Any:
    """Tensors with their strides and offsets, and device arguments, moved from the CPU to the NPU."""
    moved: dict[int, torch.Tensor] = {}

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in moved:
                moved[id(leaf)] = _tensor_to_npu(leaf)
            return moved[id(leaf)]
        if isinstance(leaf, torch.device) and leaf.type == "cpu":
            return NPU
        return str(NPU) if isinstance(leaf, str) and leaf == "cpu" else leaf

    return tree_map(move, tree)


def compare(actual: Any, expected: Any, *, values: bool) -> None:
    """Raises Mismatch, of values only where all else is right. Without `values` only structure, devices, shapes and
    data types are compared."""
    if values:
        compare(actual, expected, values=False)
    left, left_shape = tree_flatten(actual)
    right, right_shape = tree_flatten(expected)
    if len(left) != len(right):
        raise Mismatch(f"{len(left)} results instead of {len(right)}: {left_shape} and {right_shape}")
    for a, e in zip(left, right):
        if isinstance(e, torch.Tensor):
            _compare_tensors(a, e, values)
        elif isinstance(e, torch.device):
            if a.type != ("npu" if e.type == "cpu" else e.type):
                raise Mismatch(f"device {a} instead of {e}")
        elif values and not _equal(a, e):
            raise Mismatch(f"{a!r} instead of {e!r}", values=True)


def _equal(a: Any, e: Any) -> bool:
    if isinstance(e, complex):
        return isinstance(a, complex) and _equal(a.real, e.real) and _equal(a.imag, e.imag)
    if isinstance(e, float):
        return isinstance(a, float) and (a == e or math.isclose(a, e, rel_tol=1e-5) or (a != a and e != e))
    return type(a) is type(e) and bool(a == e)


def _compare_tensors(actual: Any, expected: torch.Tensor, values: bool) -> None:
    if not isinstance(actual, torch.Tensor):
        raise Mismatch(f"{type(actual).__name__} instead of a tensor")
    device = "npu" if expected.device.type == "cpu" else expected.device.type
    for what, a, e in (
        ("device", actual.device.type, device),
        ("dtype", actual.dtype, expected.dtype),
        ("layout", actual.layout, expected.layout),
        ("shape", tuple(actual.shape), tuple(expected.shape)),
        ("requires_grad", actual.requires_grad, expected.requires_grad),
    ):
        if a != e:
            raise Mismatch(f"{what} {a} instead of {e}")
    if not values or device == "meta":
        return
    a, e = actual.detach().cpu(), expected.detach()
    try:
        torch.testing.assert_close(a.resolve_conj().resolve_neg(), e.resolve_conj().resolve_neg(), equal_nan=True)
    except AssertionError as error:
        raise Mismatch(" ".join(str(error).split()), values=True) from None
