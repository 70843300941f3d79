"""libopapi's two phases: what phase one refuses, with which status and text, and what it leaves to phase two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.twin

NULL_POINTER, INVALID = 161001, 161002


@pytest.fixture(scope="module")
def outcomes(program: Callable[..., Any]) -> dict[str, list[Any]]:
    return program("protocol", mode="aclnn")


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("null_input", NULL_POINTER, "aclnnAdd: self is null"),
        ("null_scalar", NULL_POINTER, "aclnnAdd: alpha is null"),
        ("null_output", NULL_POINTER, "aclnnMul: out is null"),
        ("null_data", NULL_POINTER, "aclnnMul: other's data is null"),
        ("unknown_dtype", INVALID, "data type 29"),
        ("private_format", INVALID, "private format 29"),
        ("beyond_storage", INVALID, "reaches element 3 of a storage of 3"),
        ("not_broadcastable", INVALID, "does not broadcast"),
        ("wrong_output_shape", INVALID, "out has shape [5], the inputs broadcast to [4]"),
        ("inner_sizes", INVALID, "different inner sizes"),
        ("bad_dim", INVALID, "dim 2 is not one of self of shape [2, 3]"),
        ("cast_dtype", INVALID, "dtype is not the data type of out"),
    ],
)
def test_phase_one_refuses(outcomes: dict[str, list[Any]], name: str, status: int, text: str) -> None:
    actual_status, actual_text = outcomes[name]
    assert actual_status == status
    assert text in actual_text


def test_zero_size_tensors_need_no_data(outcomes: dict[str, list[Any]]) -> None:
    assert outcomes["zero_size_without_data"] == [0, ""]


def test_executor_owns_its_copies(outcomes: dict[str, list[Any]]) -> None:
    assert outcomes["copies_outlive_the_handles"] == [0, "[4.0, 4.0, 4.0, 4.0, 2.0]"]
