"""Operators of the emulated NPU beside NumPy's and SciPy's: the conformance run compares with PyTorch's kernels for
the CPU, which `override` itself computes with, and our aclnn functions too."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conftest import MODES, PROGRAMS

pytestmark = pytest.mark.twin
Both = tuple[float, float]  # the NPU's and the CPU's
BOTH_WAYS = ("forward", "backward")
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


def measured(program: Any, kind: str) -> dict[str, Both]:
    """Distances from float64 on the NPU and the CPU, by operator, data type and check."""

    def kind_of(name: str) -> str:
        return "transforms" if name.startswith("fft.") else "products" if "matmul" in name else "operators"

    found = program.kept("rounding", mode="aclnn")
    rows = {name: checks for name, checks in found.items() if kind_of(name) == kind}
    assert all(sum(on_cpu for _, on_cpu, _ in checks.values()) > 0 for checks in rows.values())
    return {f"{name} {check}": (both[0], both[1]) for name, checks in rows.items() for check, both in checks.items()}


def further(found: dict[str, Both], limit: float) -> dict[str, Both]:
    """Those that are further from float64 on the NPU than on the CPU, by more than `limit`; a NaN is."""
    return {name: both for name, both in found.items() if not both[0] <= both[1] * limit}


def test_half_precision_is_no_further_from_float64_than_on_the_cpu(program: Any) -> None:
    """Those that the table of conformance calls rounding: norms keep statistics in float32, as the device does."""
    found = measured(program, "operators")
    names = {name.rsplit(" ", 1)[0] for name in found}
    assert len(names) >= 20
    assert further(found, 1.005) == {}
    pairs = {name: [found[f"{name} {check}"] for check in BOTH_WAYS if f"{name} {check}" in found] for name in names}
    sums = {name: (sum(npu for npu, _ in both), sum(cpu for _, cpu in both)) for name, both in pairs.items()}
    assert further(sums, 1.001) == {}


def test_products_are_about_as_far_from_float64_as_on_the_cpu(program: Any) -> None:
    """Half precision no further; in float32, the order of additions is another where PyTorch wants a gradient."""
    found = measured(program, "products")
    single = {name: both for name, both in found.items() if " float32 " in name}
    halves = {name: both for name, both in found.items() if name not in single}
    assert len(single) == 5 and len(halves) == 10  # forward and strided of two, out of one
    assert further(single, 1.5) == {} and further(halves, 1.001) == {}


def test_transforms_are_as_far_from_float64_as_products_are_on_the_cpu(program: Any) -> None:
    """torch_npu multiplies by the matrix of a transform; another order of additions makes a third of difference."""
    found = measured(program, "transforms")
    assert {name.split()[0] for name in found} == {"fft.hfft2", "fft.rfft2"} and len(found) == 20
    assert further(found, 1.5) == {}


def test_what_only_the_npu_has_not_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import distance
    import torch

    nan, inf = math.nan, math.inf
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)

    def far(npu: list[float], cpu: list[float]) -> bool:
        both = distance.of_both([torch.tensor(npu)], [torch.tensor(cpu)], [exact])
        return bool(further({"": both}, 1.5))

    assert not far([3.0, 4.0], [3.0, 4.0]) and not far([3.0, 4.25], [3.0, 4.25])
    assert far([3.0, 4.25], [3.0, 4.0])
    for wrong in (nan, inf, -inf):
        assert far([wrong, 4.0], [3.0, 4.25])
        assert not far([wrong, 4.25], [wrong, 4.25]) and far([wrong, 4.75], [wrong, 4.25])
    assert far([3.0], [3.0, 4.25]) and far([3.0, 4.0, 5.0], [3.0, 4.25])


def test_forms_in_place_are_compared_too(program: Any) -> None:
    called = program.kept("references", mode="aclnn")["called"]
    assert sum(name.startswith("aclnnInplace") for name in called) >= 60
