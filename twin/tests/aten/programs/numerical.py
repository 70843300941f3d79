"""Comparison of a function and its gradient on the emulated NPU with one of NumPy in float64."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "twin/python"))
from ascend_twin.conformance import calls  # noqa: E402

Array = np.ndarray[Any, Any]
random = np.random.default_rng(3)
rows: dict[str, float] = {}  # the greatest difference of each


def difference(found: torch.Tensor, wanted: Array) -> float:
    return float(np.max(np.abs(found.cpu().numpy() - wanted) / (1 + np.abs(wanted)), initial=0))


def slopes(function: Callable[[Array], Array], x: Array, weights: Array) -> Array:
    """The gradient of sum(weights * function(x)) by central differences, in float64."""
    found = np.empty_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-5
        found[place] = np.sum(weights * (function(x + step) - function(x - step))) / 2e-5
    return found


def check(
    name: str, on_npu: Callable[[torch.Tensor], torch.Tensor], reference: Callable[[Array], Array], x: Array
) -> None:
    x = x.astype(np.float32).astype(np.float64)
    leaf = torch.tensor(x, dtype=torch.float32, device="npu:0", requires_grad=True)
    found = on_npu(leaf)
    wanted = reference(x).reshape(found.shape)
    weights = np.cos(np.arange(wanted.size) * 0.7).reshape(wanted.shape) + 1.5
    (gradient,) = torch.autograd.grad(found, leaf, torch.tensor(weights, dtype=torch.float32).npu())
    wanted_gradient = slopes(lambda y: reference(y).reshape(wanted.shape), x, weights)
    for what, one, other in (("", found.detach(), wanted), (" gradient", gradient, wanted_gradient)):
        rows[name + what] = difference(one, other)


def tell() -> None:
    print(json.dumps({"differs": rows, "called": calls.called()}))
