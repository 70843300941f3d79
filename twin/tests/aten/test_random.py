"""Random numbers come from the NPU generator's state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import MODES

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from random_numbers import CHECKS, DRAWS  # noqa: E402

pytestmark = pytest.mark.twin

NAMES = [*CHECKS, *(f"{seed} {draw}" for seed in ("manual_seed", "npu.manual_seed") for draw in DRAWS)]


@pytest.fixture(scope="module")
def report(program: Callable[..., Any]) -> dict[str, dict[str, bool]]:
    return {mode: program("random_numbers", mode=mode) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_random_numbers(report: dict[str, dict[str, bool]], mode: str, name: str) -> None:
    assert report[mode][name]


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_draw_the_same(program: Callable[..., Any], mode: str) -> None:
    first, second = (program("random_numbers", "digest", mode=mode) for _ in range(2))
    assert first == second
