"""Operators whose results need no copy: they have the CPU's geometry, and no memory of the host is taken for them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from results_in_place import NAMES  # noqa: E402

pytestmark = pytest.mark.twin
SOURCE = Path(__file__).resolve().parents[2] / "runtime/aten/out_form.cpp"


@pytest.mark.parametrize("name", NAMES)
def test_results_lie_in_place(program: Callable[..., Any], name: str) -> None:
    assert program.kept("results_in_place")[name] == ""


def test_every_such_operator_is_tested() -> None:
    known = re.findall(r'^    \{"_?(\w+)", "\w*", "\w+", \w', SOURCE.read_text(), re.MULTILINE)
    assert sorted(known) == sorted(NAMES)
