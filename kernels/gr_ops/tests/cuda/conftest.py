"""Without a GPU the kernels run in Triton's interpreter, which must be asked for before they are imported.

The operators are called as on CUDA, through the dispatcher and its autograd: without a GPU the interpreter's kernels
take the place of the CPU's meanwhile.
"""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402 (a device's backend, that torch loads, may import Triton)

TUNED = {"forward": ["forward"], "backward": ["keys_and_values", "queries"]}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of few tokens: a sequence of 70 has several, and the interpreter's time goes by tiles."""
    from gr_ops.cuda import bias_gradients
    from gr_ops.cuda.layer import products
    from gr_ops.cuda.tuning import tiles

    small = products.Tile(tokens=32, columns=16, inner=16, warps=4, stages=2, registers=128)
    monkeypatch.setattr(products, "TILES", {2: small, 4: small})

    monkeypatch.setattr(bias_gradients, "BLOCK", 16)
    monkeypatch.setattr(bias_gradients, "DENSE_TILE", 16)
    for module, names in TUNED.items():
        for name in names:
            kernel = getattr(importlib.import_module(f"gr_ops.cuda.{module}"), name)
            configs = tiles((16, 32, 4, 1) if name == "keys_and_values" else (32, 16, 4, 1))
            monkeypatch.setattr(kernel, "configs", configs)
            monkeypatch.setattr(kernel, "_tuners", {})
            monkeypatch.setattr(kernel, "_best", {})


@pytest.fixture
def device() -> Iterator[torch.device]:
    """Where torch.ops.mxrec.hstu_* are the kernels under test."""
    from gr_ops.cuda import operators

    if torch.cuda.is_available():
        yield torch.device("cuda")
        return
    library = operators.register("CPU")
    yield torch.device("cpu")
    library._destroy()
