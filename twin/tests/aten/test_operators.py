"""Operators on the twin against PyTorch on the CPU: values, gradients, device of the results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from operators import OPERATORS, OVERRIDE_ONLY  # noqa: E402

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def outcomes(program: Callable[..., Any]) -> dict[str, dict[str, str]]:
    return {
        "override": program("operators", mode="override"),
        "aclnn": program("operators", *OPERATORS, mode="aclnn"),
    }


@pytest.mark.parametrize("name", [*OPERATORS, *OVERRIDE_ONLY])
def test_override_equals_cpu(outcomes: dict[str, dict[str, str]], name: str) -> None:
    assert outcomes["override"][name] == ""


@pytest.mark.parametrize("name", OPERATORS)
def test_aclnn_equals_cpu(outcomes: dict[str, dict[str, str]], name: str) -> None:
    assert outcomes["aclnn"][name] == ""


def test_the_gradient_that_torch_npu_gets_wrong(program: Callable[..., Any]) -> None:
    """A matrix times a batch of matrices (docs/twin.md). A wheel that has it right fails this: then the page goes."""
    found = program.kept("wheel_faults", mode="aclnn")
    (weight, batch), expanded = found["plain"], found["expanded"]
    assert weight > 1 and batch < 1e-5 and max(expanded) < 1e-5


def test_the_packed_sequences_that_torch_npu_gets_wrong(program: Callable[..., Any]) -> None:
    """It packs sequences with their padding, as its own LSTM expects them (docs/twin.md). Right: the page goes."""
    found = program.kept("wheel_faults", mode="aclnn")
    assert found["gru"]["packed"] > 0.01 and found["gru"]["padded"] < 1e-5
    assert found["lstm"]["input"] > 0.01 and found["lstm"]["reverse"] > 0.01 and found["lstm"]["weight"] < 1e-5
