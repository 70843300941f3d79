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
        (
            "matrices_of_integers",
            INVALID,
            "aclnnMatmul: self has the data type Long; supported are Half, Float, BFloat16",
        ),
        ("float_indices", INVALID, "aclnnEmbedding: indices has the data type Float; supported are Int, Long"),
        ("float_truth", INVALID, "aclnnLtTensor: out has the data type Float; supported are Bool"),
    ],
)
def test_phase_one_refuses(outcomes: dict[str, list[Any]], name: str, status: int, text: str) -> None:
    actual_status, actual_text = outcomes[name]
    assert actual_status == status
    assert text in actual_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kinds_exchanged", "aclnnAdd: other is an aclScalar; an aclTensor is expected; aclnnAdd takes (In, self), "),
        ("handle_for_number", "aclnnGather: dim is an aclTensor; a number is expected; aclnnGather takes "),
        ("number_for_handle", "aclnnAdd: alpha is 0x1, no live handle; an aclScalar is expected; aclnnAdd takes "),
        ("too_few", "no live handle; an aclTensor is expected; aclnnMul takes (In, self), (In, other), (Out, out)"),
        ("too_many", "aclnnMul: workspaceSize is an aclTensor; the call has too many arguments; aclnnMul takes "),
        ("no_memory", "aclnnGeluBackwardV2: approximate is 0x1000, no memory of this process"),
        ("math_type", "aclnnMm: cubeMathType is 9; 0, 1, 2 or 3 is expected"),
        ("optional_of_another_kind", "aclnnBinaryCrossEntropy: weight is an aclScalar; an aclTensor is expected"),
        ("list_of_another_kind", "aclnnCat: tensors is an aclScalarList; an aclTensorList is expected"),
        ("destroyed_handle", "aclnnMul: self is 0x"),
    ],
)
def test_a_wrong_signature_names_function_and_argument(outcomes: dict[str, list[Any]], name: str, text: str) -> None:
    """C checks no argument of a function that was looked up by name; libopapi does."""
    status, actual = outcomes[name]
    assert status == INVALID
    assert text in actual


def test_a_handle_is_destroyed_once(outcomes: dict[str, list[Any]]) -> None:
    statuses, text = outcomes["destroyed_twice"]
    assert statuses == [0, INVALID]
    assert "no live handle, expected an aclScalar" in text


def test_the_table_of_functions(outcomes: dict[str, list[Any]]) -> None:
    names, missing = outcomes["functions"]
    assert missing == []
    assert len(names) == len(set(names)) >= 330


def test_zero_size_tensors_need_no_data(outcomes: dict[str, list[Any]]) -> None:
    assert outcomes["zero_size_without_data"] == [0, ""]


def test_executor_owns_its_copies(outcomes: dict[str, list[Any]]) -> None:
    assert outcomes["copies_outlive_the_handles"] == [0, "[4.0, 4.0, 4.0, 4.0, 2.0]"]
