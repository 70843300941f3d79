"""Without a GPU the kernels run in Triton's interpreter, which must be asked for before they are imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of few elements, so that runs of equal rows and searches go over their ends in small batches. The
    interpreter's time goes by elements."""
    from hybrid_torchrec.cuda import backend, launch

    monkeypatch.setattr(backend, "UPDATED", 32)
    if not torch.cuda.is_available():
        monkeypatch.setattr(launch, "BLOCK", 32)
        monkeypatch.setattr(launch, "PLACED", 16)
