"""Where the operators of gr_ops stand in for PyTorch's: `model.attention=fused` on a CPU or an NPU.

They do in one pass over the tokens what PyTorch does in many, and keep nothing but their inputs for the backward pass.
Plain PyTorch stays the reference, and is what runs on other devices, under autocast, and on the CPU in bfloat16 and on
wide layers, whose time goes into products that PyTorch's library is best at.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

WIDEST = 300_000  # elements of a layer's largest matrix, on a CPU
WIDEST_ROWS, WIDEST_PRODUCT = 2048, 16384  # columns, on an NPU


def around_attention(x_LD: torch.Tensor, weight: torch.Tensor, values: int) -> bool:
    """Whether the projection and the gated output of a layer are ours: hstu_projection, hstu_gated_output.

    `weight` [D, E] is that of the projection, `values` the width of the attention's result.
    """
    device = x_LD.device.type
    if device not in ("cpu", "npu") or torch.is_autocast_enabled(device):
        return False
    if device == "cpu":
        wide = weight.numel() > WIDEST
        return not wide and x_LD.dtype in (torch.float32, torch.float64) and has_bias(x_LD.device)
    fits = max(weight.shape[0], values) <= WIDEST_ROWS and weight.shape[1] <= WIDEST_PRODUCT
    return fits and x_LD.dtype == weight.dtype != torch.float64 and has_kernel("hstu_projection")


def has_kernel(name: str) -> bool:
    """Whether the operator of this name has a kernel for NPUs in this process."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"mxrec::{name}", "PrivateUse1")


def projection(x_LD: torch.Tensor, weight: torch.Tensor, split: Sequence[int], eps: float) -> list[torch.Tensor]:
    """SiLU(norm(x) weight), split along its columns."""
    parts: list[torch.Tensor] = torch.ops.mxrec.hstu_projection(x_LD, weight, split, eps)
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
    out: torch.Tensor = torch.ops.mxrec.hstu_gated_output(
        attended_L, u_L, x_LD, linear.weight, linear.bias, keep_L, scale, eps
    )
    return out


def has_bias(device: torch.device) -> bool:
    """Whether time buckets and the relative bias are ours: hstu_time_buckets, hstu_relative_bias."""
    return device.type == "cpu" and hasattr(torch.ops.mxrec, "hstu_relative_bias")
