"""npu_fusion_attention and scaled_dot_product_attention: layouts, masks, dropout and refusals, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import MODES

pytestmark = pytest.mark.twin
TOLERANCE = {"half": 2e-3, "bfloat16": 1.5e-2, "stock_half": 4e-3}
REFUSALS = {
    "refused_heads": "headNum is 3",
    "refused_mask_shape": "attenMask has shape [8, 7]; sparseMode 1 takes [2, 4, 8, 8]",
    "refused_mask_missing": "sparseMode 1 needs attenMask, which is null",
    "refused_compressed_shape": "attenMask has shape [8, 8]; sparseMode 2 takes the matrix of [2048, 2048]",
    "refused_prefix": "prefix has 1 entries for a batch of 2",
    "refused_slopes": "pseType is 2; 0 and 1 are emulated",
    "refused_encoding": "pse has shape [1]; for the layout TND the twin takes one element for each of the 44 scores",
}


@pytest.mark.parametrize("mode", MODES)
def test_results_and_gradients_are_those_of_float64(program: Any, mode: str) -> None:
    found = program("attention", mode=mode, TASK_QUEUE_ENABLE="0")
    errors = {name: value for name, value in found.items() if not name.startswith("refused")}
    assert len(errors) >= 50
    assert {name: error for name, error in errors.items() if not error < TOLERANCE.get(name, 1e-5)} == {}
    assert {name: found[name] for name, text in REFUSALS.items() if text not in found[name]} == {}


def test_a_compressed_mask_of_another_matrix_is_told(program: Any) -> None:
    """Its content is only known on the device, so the stream fails."""
    found = program("attention", "refused_compressed_matrix", mode="aclnn", TASK_QUEUE_ENABLE="0")
    assert "attenMask is not the matrix that sparseMode 2 takes" in found["refused_compressed_matrix"]


def test_dropout_orders_its_streams(program: Any) -> None:
    """The mask is made on a second stream, which torch_npu orders before its use."""
    found = program("attention", "dropout_on_a_stream_of_its_own", mode="aclnn", TWIN_STREAMS="strict")
    assert found["dropout_on_a_stream_of_its_own"] < 1e-5
