"""How far results are from those of float64."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._pytree import tree_flatten


def of_tensor(found: torch.Tensor, on_cpu: torch.Tensor, exact: torch.Tensor) -> float:
    """The norm of the difference where the CPU's and the exact one are finite. There a NaN is no 0, nor an infinity;
    another shape is infinitely far."""
    if not found.shape == on_cpu.shape == exact.shape:
        return math.inf
    difference = found.to(exact.dtype) - exact
    return float(torch.where(on_cpu.isfinite() & exact.isfinite(), difference, 0).norm())


def of_both(on_npu: Any, on_cpu: Any, exact: Any) -> tuple[float, float]:
    """The NPU's and the CPU's sums over the tensors of a result that are not of integers."""
    leaves = zip(*(tree_flatten(tree)[0] for tree in (on_npu, on_cpu, exact)), strict=True)
    tensors = [
        [tensor.detach().cpu() for tensor in leaf]
        for leaf in leaves
        if isinstance(leaf[1], torch.Tensor) and (leaf[1].is_floating_point() or leaf[1].is_complex())
    ]
    return sum(of_tensor(n, c, e) for n, c, e in tensors), sum(of_tensor(c, c, e) for _, c, e in tensors)
