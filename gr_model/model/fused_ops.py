"""Where the operators of gr_ops stand in for PyTorch's: `model.attention=fused` on a CPU, an NPU or a GPU.

They do in one pass over the tokens what PyTorch does in many, and keep nothing but their inputs for the backward pass.
Plain PyTorch stays the reference, and is what runs under autocast but on a GPU, in float32 on a GPU, and on the CPU in
bfloat16 and on wide layers, whose time goes into products that PyTorch's library is best at. Under autocast on a GPU
the rows between the layers stay float32, and all else is of autocast's type, as in PyTorch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache

import torch
from torch import nn

WIDEST = 300_000  # elements of a layer's largest matrix, on a CPU
WIDEST_ROWS, WIDEST_PRODUCT = 2048, 16384  # columns, on an NPU or a GPU
KEYS = {"npu": "PrivateUse1", "cuda": "CUDA"}  # of the dispatcher


def around_attention(x_LD: torch.Tensor, weight: torch.Tensor, values: int) -> bool:
    """Whether the projection and the gated output of a layer are ours: hstu_projection, hstu_gated_output.

    `weight` [D, E] is that of the projection, `values` the width of the attention's result.
    """
    device = x_LD.device.type
    if device not in ("cpu", *KEYS) or (device != "cuda" and torch.is_autocast_enabled(device)):
        return False
    if device == "cpu":
        wide = weight.numel() > WIDEST
        return not wide and x_LD.dtype in (torch.float32, torch.float64) and has_bias(x_LD.device)
    fits = max(weight.shape[0], values) <= WIDEST_ROWS and weight.shape[1] <= WIDEST_PRODUCT
    return fits and _types_fit(x_LD, weight) and has_kernel("hstu_projection", device)


def _types_fit(x_LD: torch.Tensor, weight: torch.Tensor) -> bool:
    if torch.is_autocast_enabled(x_LD.device.type):
        chosen = torch.get_autocast_dtype(x_LD.device.type)
        return x_LD.dtype in (torch.float32, chosen) and weight.dtype in (torch.float32, chosen)
    # Products of float32 are what a GPU waits for, and the operators make one of them twice (benchmarks.hstu_layer).
    slow = (torch.float64, torch.float32) if x_LD.is_cuda else (torch.float64,)
    return x_LD.dtype == weight.dtype and x_LD.dtype not in slow


def has_kernel(name: str, device: str) -> bool:
    """Whether the operator of this name has a kernel for NPUs, or for GPUs, in this process."""
    if device == "cuda" and not _triton_installed():
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"mxrec::{name}", KEYS[device])


@cache
def _triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def projection(x_LD: torch.Tensor, weight: torch.Tensor, split: Sequence[int], eps: float) -> list[torch.Tensor]:
    """SiLU(norm(x) weight), split along its columns."""
    parts: list[torch.Tensor] = torch.ops.mxrec.hstu_projection(x_LD, _rounded(weight), split, eps)
    return parts


def gated_output(
    attended_L: torch.Tensor,
    u_L: torch.Tensor,
    x_LD: torch.Tensor,
    linear: nn.Linear,
    keep_L: torch.Tensor | None,
    scale: float,
    eps: float,
) -> torch.Tensor:
    """x + linear(dropout(norm(attended) * u)); `keep_L` and `scale` are those of the dropout."""
    weight, bias = _rounded(linear.weight), _rounded(linear.bias)
    out: torch.Tensor = torch.ops.mxrec.hstu_gated_output(attended_L, u_L, x_LD, weight, bias, keep_L, scale, eps)
    return out


def _rounded(weight: torch.Tensor) -> torch.Tensor:
    """Of autocast's type, where it is on."""
    device = weight.device.type
    return weight.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else weight


def has_bias(device: torch.device) -> bool:
    """Whether time buckets and the relative bias are ours: hstu_time_buckets, hstu_relative_bias."""
    return device.type == "cpu" and hasattr(torch.ops.mxrec, "hstu_relative_bias")
