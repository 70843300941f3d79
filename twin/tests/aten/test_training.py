"""Training on the twin gives the losses of training on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from training import OPTIMIZERS  # noqa: E402

pytestmark = pytest.mark.twin

# One unit in the last place of a float32 loss below one, and ten times that for formulas that torch_npu composes.
TOLERANCE = {"override": 6e-8, "aclnn": 1e-5}


@pytest.fixture(scope="module")
def losses(program: Callable[..., Any]) -> dict[str, dict[str, list[float]]]:
    return {mode: program("training", *OPTIMIZERS, mode=mode) for mode in TOLERANCE}


@pytest.mark.parametrize("mode", TOLERANCE)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_equal_cpu(losses: dict[str, dict[str, list[float]]], mode: str, optimizer: str) -> None:
    difference, first, last = losses[mode][optimizer]
    assert difference <= TOLERANCE[mode]
    assert last < first, "training did not lower the loss"


@pytest.mark.parametrize("queue", ["0", "2"])
def test_task_queue_modes_give_the_same_losses(program: Callable[..., Any], queue: str) -> None:
    (difference, _, _) = program("training", "Adam", mode="aclnn", TASK_QUEUE_ENABLE=queue)["Adam"]
    assert difference <= TOLERANCE["aclnn"]
