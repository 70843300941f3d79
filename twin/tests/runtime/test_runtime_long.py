"""Memory, descriptors and threads do not grow with the steps of a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin

PROGRAM = Path(__file__).with_name("long_training.py")


def train(scenario: Scenario, steps: int) -> list[dict[str, Any]]:
    program = f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    text = f"import runpy, sys; sys.argv = ['long_training.py', '{steps}']; {program}"
    samples: list[dict[str, Any]] = json.loads(scenario(text).stdout.splitlines()[-1])["samples"]
    return samples


def check(samples: list[dict[str, Any]], growth: int) -> None:
    """From the second sample on: before it caches fill and kernels are chosen. `growth`: bytes of the process."""
    first, last = samples[1], samples[-1]
    assert last["resident"] - first["resident"] < growth, samples
    assert last["allocated"] - first["allocated"] < 1 << 16, samples  # the last batch is longer or shorter
    assert last["reserved"] == first["reserved"], samples
    assert (last["descriptors"], last["threads"]) == (first["descriptors"], first["threads"]), samples


def test_500_steps_hold_no_more_memory(scenario: Scenario) -> None:
    check(train(scenario, 500), growth=4 << 20)


@pytest.mark.slow
def test_10000_steps_hold_no_more_memory(scenario: Scenario) -> None:
    """`benchmarks/twin.py robustness` measures the same: 400 bytes a step would already be too much."""
    check(train(scenario, 10_000), growth=4 << 20)
