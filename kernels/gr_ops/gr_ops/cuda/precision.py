"""Of products of float32: three of TF32 each, which have its precision on tensor cores.

Where PyTorch's own products may be in TF32 (torch.backends.cuda.matmul.allow_tf32): one of TF32, or from Hopper on
three of bfloat16, of parts that were taken apart before (split.py). Their error is a hundredth of TF32's. wgmma takes
bfloat16 as it lies in memory, but TF32 in one order alone, and Triton then falls back to slower products. Other types
ignore it.
"""

from __future__ import annotations

from functools import cache

import torch

HOPPER = (9, 0)


def of_float32() -> str:
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"


def in_two_parts(x: torch.Tensor) -> bool:
    """Whether products of tensors like this one are of two bfloat16 parts each."""
    return x.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32 and _wgmma(x.device)


@cache
def _wgmma(device: torch.device) -> bool:
    """Triton's interpreter does as a Hopper GPU."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= HOPPER
