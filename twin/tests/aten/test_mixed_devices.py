"""A forgotten `.npu()` is refused in both modes as torch_npu refuses it on a device; what PyTorch lets mix, mixes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from mixed_devices import ILLEGAL, LEGAL, ON_HOST  # noqa: E402

pytestmark = pytest.mark.twin
MODES = ("override", "aclnn")


@pytest.fixture(scope="module")
def outcomes(program: Callable[..., Any]) -> dict[str, dict[str, str]]:
    return {mode: program("mixed_devices", mode=mode, TASK_QUEUE_ENABLE="0") for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ILLEGAL)
def test_a_mix_is_refused(outcomes: dict[str, dict[str, str]], name: str, mode: str) -> None:
    """With aclnn the words are torch_npu's own, which for some kernels stop after the first sentence."""
    assert "Expected all tensors to be on the same device" in outcomes[mode][name]


@pytest.mark.parametrize("name", ILLEGAL)
def test_the_message_is_pytorchs(outcomes: dict[str, dict[str, str]], name: str) -> None:
    words = r"but found at least two devices, |but got [\w ]+ is on \S+, different from other tensors on "  # 2.6, 2.8
    assert re.search(words, outcomes["override"][name])
    assert "npu:0" in outcomes["override"][name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_mix_runs(outcomes: dict[str, dict[str, str]], name: str, mode: str) -> None:
    assert outcomes[mode][name] == ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ON_HOST)
def test_what_the_host_reads_must_be_on_the_host(outcomes: dict[str, dict[str, str]], name: str, mode: str) -> None:
    assert "CPU" in outcomes[mode][name]
