"""Layers of models outside of recommenders: convolutions, recurrent layers and cells, rotary embeddings."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import MODES

pytestmark = pytest.mark.twin
BLOCKS = ("block_half", "block_half_overlapping", "block_half_mean", "block_half_evaluated")
TOLERANCE = {"rotary_float16": 4e-3, "conv2d_half": 4e-3, **dict.fromkeys(BLOCKS, 1.5)}
CONVOLUTIONS = (
    "conv1d",
    "conv1d_strided",
    "conv2d",
    "conv2d_strided",
    "conv2d_depthwise",
    "conv2d_half",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose2d_wide_padding",
    "conv_transpose3d",
)


def check(found: dict[str, float], count: int) -> None:
    """Each tensor's errors are relative to its own largest number, if that is above 1."""
    assert len(found) == count
    assert {name: error for name, error in found.items() if not error < TOLERANCE.get(name, 5e-5)} == {}


@pytest.mark.parametrize("mode", MODES)
def test_results_and_gradients_are_those_of_float64(program: Any, mode: str) -> None:
    """With `aclnn` torch_npu runs most of these by legacy operators, some of their results in FRACTAL_NZ."""
    check(program("layers", mode=mode)["errors"], 30)


def test_packed_sequences(program: Any) -> None:
    names = ("lstm_packed", "lstm_packed_layers", "lstm_packed_bidirectional")
    check(program("layers", *names, mode="aclnn")["errors"], len(names))


def test_convolutions_without_internal_formats(program: Any) -> None:
    """Where internal formats are forbidden, torch_npu calls aclnnConvolution and aclnnConvolutionBackward."""
    found = program("layers", "no_internal_formats", *CONVOLUTIONS, mode="aclnn")
    check(found["errors"], len(CONVOLUTIONS))
    assert {"aclnnConvolution", "aclnnConvolutionBackward"} <= set(found["called"])


def test_private_formats_in_memory(program: Any) -> None:
    """Blocks as they are documented; a round trip alone would not tell a wrong order."""
    assert program("formats", mode="aclnn") == dict.fromkeys(
        ("FRACTAL_NZ", "NC1HWC0", "FRACTAL_Z", "NDC1HWC0", "FRACTAL_Z_3D"), True
    )
