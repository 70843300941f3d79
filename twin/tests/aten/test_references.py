"""Operators of the emulated NPU beside NumPy's and SciPy's: the conformance run compares with PyTorch's kernels for
the CPU, which `override` itself computes with, and our aclnn functions too."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import MODES

pytestmark = pytest.mark.twin
# Comparisons, and functions among those that torch_npu calls for them.
NUMPY = {
    "numpy_layers": (180, "MaxPool2dWithMask AvgPool3dBackward ReflectionPad3d UpsampleBilinear2d ForeachTan"),
    "numpy_sampling": (
        90,
        "GridSampler2D GridSampler2DBackward GridSampler3D GridSampler3DBackward AffineGrid UpsampleBicubic2d "
        "UpsampleBicubic2dBackward UpsampleBicubic2dAA UpsampleBicubic2dAAGrad UpsampleBilinear2dAA "
        "UpsampleBilinear2dAABackward Im2col Im2colBackward",
    ),
    "numpy_algebra": (
        38,
        "LinalgQr Inverse TriangularSolve LinalgCross Pdist Addbmm InplaceAddr CtcLoss CtcLossBackward",
    ),
}
# torch_npu's own calls: aclnnGelu has no argument for approximate='tanh'.
DIFFERS = {"override": set(), "aclnn": {"nn.functional.gelu float32"}}


@pytest.mark.parametrize("mode", MODES)
def test_operators_give_what_their_references_give(program: Any, mode: str) -> None:
    rows = program.kept("references", mode=mode)["rows"]
    differs = {name: row["differs"] for name, row in rows.items() if row["differs"]}
    assert set(differs) == DIFFERS[mode], differs
    assert len(rows) > 400 and sum(row["samples"] for row in rows.values()) > 1200


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NUMPY)
def test_results_and_gradients_are_those_of_numpy(program: Any, name: str, mode: str) -> None:
    found = program.kept(name, mode=mode)
    count, functions = NUMPY[name]
    assert len(found["differs"]) >= count
    assert {name: by for name, by in found["differs"].items() if not by < 1e-5} == {}
    if mode == "aclnn":
        assert {f"aclnn{function}" for function in functions.split()} <= set(found["called"])


def test_half_precision_is_no_further_from_float64_than_on_the_cpu(program: Any) -> None:
    """Those that the table of conformance calls rounding: norms keep statistics in float32, as the device does."""
    found = program.kept("rounding", mode="aclnn")["operators"]
    assert len(found) >= 10 and all(on_cpu > 0 for _, on_cpu in found.values())
    assert {name: both for name, both in found.items() if both[0] > both[1] * 1.001} == {}


def test_products_are_about_as_far_from_float64_as_on_the_cpu(program: Any) -> None:
    """Half precision no further; in float32, the order of additions is another where PyTorch wants a gradient."""
    found = program.kept("rounding", mode="aclnn")["products"]
    assert len(found) == 6 and all(on_cpu > 0 for _, on_cpu in found.values())
    limit = {name: 1.5 if name.endswith("float32") else 1.001 for name in found}
    assert {name: both for name, both in found.items() if both[0] > both[1] * limit[name]} == {}


def test_transforms_are_as_far_from_float64_as_products_are_on_the_cpu(program: Any) -> None:
    """torch_npu multiplies by the matrix of a transform; another order of additions makes a third of difference."""
    found = program.kept("rounding", mode="aclnn")["transforms"]
    assert set(found) == {"fft.hfft2", "fft.rfft2"} and all(on_cpu > 0 for _, on_cpu in found.values())
    assert {name: both for name, both in found.items() if both[0] > both[1] * 1.5} == {}


def test_forms_in_place_are_compared_too(program: Any) -> None:
    called = program.kept("references", mode="aclnn")["called"]
    assert sum(name.startswith("aclnnInplace") for name in called) >= 60
