"""Views, in-place, out=, devices, autocast, saving: tensors on the twin behave as tensors do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import MODES

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from tensors import CHECKS  # noqa: E402

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def outcomes(program: Callable[..., Any]) -> dict[str, dict[str, str]]:
    return {mode: program("tensors", mode=mode) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHECKS)
def test_tensors(outcomes: dict[str, dict[str, str]], mode: str, name: str) -> None:
    assert outcomes[mode][name] == ""
