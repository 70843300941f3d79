"""Without a GPU the kernels run in Triton's interpreter, which must be asked for before they are imported."""

import os
from pathlib import Path

import pytest

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402 (a device's backend, that torch loads, may import Triton)


@pytest.fixture(scope="session", autouse=True)
def libraries() -> None:
    """None of an NPU's, which the other suites load: a machine with a GPU need not have them."""


@pytest.fixture(autouse=True)
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of few elements, so that runs of equal rows and searches go over their ends in small batches, which are
    sorted beside the lookup as large ones are. The interpreter's time goes by elements."""
    from hybrid_torchrec.backends.cuda import group, id_launches, row_launches

    monkeypatch.setattr(row_launches, "UPDATED", 32)
    monkeypatch.setattr(group, "SIDE_STREAM_MIN_IDS", 1)
    if not torch.cuda.is_available():
        monkeypatch.setattr(id_launches, "BLOCK", 32)
        monkeypatch.setattr(id_launches, "ALLOCATION_BLOCK", 16)
