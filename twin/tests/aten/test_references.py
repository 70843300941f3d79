"""Operators of the emulated NPU beside NumPy's and SciPy's: the conformance run compares with PyTorch's kernels for
the CPU, which `override` itself computes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.twin


def test_operators_give_what_their_references_give(program: Callable[..., Any]) -> None:
    rows = program("references")
    assert {name: row["differs"] for name, row in rows.items() if row["differs"]} == {}
    assert len(rows) > 400 and sum(row["samples"] for row in rows.values()) > 1200
