"""Operators of the emulated NPU beside NumPy's and SciPy's: the conformance run compares with PyTorch's kernels for
the CPU, which `override` itself computes with, and our aclnn functions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.twin
# torch_npu's own calls: aclnnGelu has no argument for approximate='tanh'.
DIFFERS = {"override": set(), "aclnn": {"nn.functional.gelu float32"}}


@pytest.mark.parametrize("mode", ["override", "aclnn"])
def test_operators_give_what_their_references_give(program: Callable[..., Any], mode: str) -> None:
    rows = program("references", mode=mode)
    differs = {name: row["differs"] for name, row in rows.items() if row["differs"]}
    assert set(differs) == DIFFERS[mode], differs
    assert len(rows) > 400 and sum(row["samples"] for row in rows.values()) > 1200


@pytest.mark.parametrize("mode", ["override", "aclnn"])
def test_layers_and_their_gradients_give_what_numpy_gives(program: Callable[..., Any], mode: str) -> None:
    """Pooling, padding, resizing, distances, activations and lists of tensors."""
    found = program("numpy_layers", mode=mode)
    assert len(found["differs"]) > 170
    assert {name: by for name, by in found["differs"].items() if not by < 1e-5} == {}
    if mode == "aclnn":
        families = ("MaxPool2dWithMask", "AvgPool3dBackward", "ReflectionPad3d", "UpsampleBilinear2d", "ForeachTan")
        assert {f"aclnn{family}" for family in families} <= set(found["called"])
