"""Without a GPU the kernels run in Triton's interpreter, which must be asked for before they are imported."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402 (a device's backend, that torch loads, may import Triton)

BLOCKS = {
    "_forward": {"Q": 32, "K": 16}, "_backward_keys": {"Q": 16, "K": 32}, "_backward_queries": {"Q": 32, "K": 16},
    "_backward_bias": {},
}  # fmt: skip


class Shaped:
    """A kernel with one shape of its blocks: there is no choosing by time without a GPU."""

    def __init__(self, kernel: Any, blocks: dict[str, int]) -> None:
        self.kernel, self.blocks = kernel, blocks

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.kernel[grid], **self.blocks)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few tokens: a sequence of 70 has several, and the interpreter's time goes by blocks."""
    from gr_model import triton_attention

    monkeypatch.setattr(triton_attention, "BIAS_BLOCK", 16)
    if torch.cuda.is_available():
        return
    for name, blocks in BLOCKS.items():
        monkeypatch.setattr(triton_attention, name, Shaped(getattr(triton_attention, name).fn, blocks))
