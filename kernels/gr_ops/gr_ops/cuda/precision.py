"""Of products of float32: three of TF32 each, which have its precision on tensor cores, or one where PyTorch's own
products may be in TF32 (torch.backends.cuda.matmul.allow_tf32). Other types ignore it."""

from __future__ import annotations

import torch


def of_float32() -> str:
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"
