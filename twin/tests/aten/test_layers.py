"""Layers of models outside of recommenders: convolutions, recurrent cells, rotary embeddings."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.twin
TOLERANCE = {"rotary_float16": 4e-3}


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("override", ("conv2d", "lstm", "lstm_without_bias", "gru", "rotary_float32", "rotary_float16")),
        ("aclnn", ("rotary_float32", "rotary_float16")),
    ],
)
def test_results_and_gradients_are_those_of_float64(program: Any, mode: str, names: tuple[str, ...]) -> None:
    found = program("layers", *names, mode=mode)
    assert set(found) == set(names)
    assert {name: error for name, error in found.items() if not error < TOLERANCE.get(name, 5e-5)} == {}
