"""Where the operators of gr_ops stand in for PyTorch's: `model.attention=fused` on a CPU, an NPU or a GPU.

They do in one pass over the tokens what PyTorch does in many, and keep nothing but their inputs for the backward pass
(on a GPU functions of gr_ops stand in for the operators, that keep what saves passes).
Plain PyTorch stays the reference, and is what runs in float32 on a GPU, and on the CPU under autocast, in bfloat16 and
on wide layers, whose time goes into products that PyTorch's library is best at. Under autocast the rows between the
layers stay float32, and all else is of autocast's type, as in PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from gr_model.model.dropout import Dropout

WIDEST = 300_000  # elements of a layer's largest matrix, on a CPU
WIDEST_ROWS, WIDEST_PRODUCT = 2048, 16384  # columns, on an NPU or a GPU
KEYS = {"npu": "PrivateUse1", "cuda": "CUDA"}  # of the dispatcher


def around_attention(x_LD: torch.Tensor, weight: torch.Tensor, values: int) -> bool:
    """Whether the projection and the gated output of a layer are ours: hstu_projection, hstu_gated_output.

    `weight` [D, E] is that of the projection, `values` the width of the attention's result.
    """
    device = x_LD.device.type
    if device not in ("cpu", *KEYS) or (device == "cpu" and torch.is_autocast_enabled(device)):
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


def projection(x_LD: torch.Tensor, weight: torch.Tensor, split: Sequence[int], eps: float) -> Sequence[torch.Tensor]:
    """x, for `gated_output`, and SiLU(norm(x) weight), split along its columns."""
    if trains_in_kernels(x_LD):
        return _cuda("layer.training").project(x_LD, weight, split, eps, _dtype(weight))
    return [x_LD, *torch.ops.mxrec.hstu_projection(x_LD, _rounded(weight), split, eps)]


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
    if trains_in_kernels(x_LD):
        return _cuda("layer.training").add_gated(x_LD, attended_L, u_L, linear.weight, linear.bias, keep_L, scale, eps)
    weight, bias = _rounded(linear.weight), _rounded(linear.bias)
    out: torch.Tensor = torch.ops.mxrec.hstu_gated_output(attended_L, u_L, x_LD, weight, bias, keep_L, scale, eps)
    return out


def whole_layer(
    x_LD: torch.Tensor,
    weight: torch.Tensor,
    linear: nn.Linear,
    split: tuple[int, ...],
    eps: tuple[float, float],
    dropout: Dropout,
    arguments: dict[str, Any],
) -> torch.Tensor | None:
    """A layer of a training step in one function of gr_ops, which multiplies nothing twice; None where it has none.
    `arguments`: of its attention (attention/base.py); `eps`: of both norms."""
    if not (torch.is_grad_enabled() and trains_in_kernels(x_LD)):
        return None
    whole = _cuda("layer.whole")
    tables, arguments = arguments["tables"], {name: x for name, x in arguments.items() if name != "tables"}
    numbers = whole.Numbers(split, *eps, _dtype(weight), dropout.scale)
    attention = whole.Attention(**arguments)
    if not whole.takes(x_LD, weight, numbers, attention, tables):
        return None
    keep_L = dropout.keep(x_LD.new_empty(1, split[0]).expand(len(x_LD), split[0]))
    out: torch.Tensor = whole.layer(x_LD, weight, linear.weight, linear.bias, keep_L, numbers, attention, tables)
    return out


def trains_in_kernels(x: torch.Tensor) -> bool:
    """Whether gr_ops has functions of torch.autograd for it, that keep more than an operator's inputs."""
    return x.is_cuda and has_kernel("hstu_projection", "cuda")


def embeds_tokens(*tables: torch.Tensor) -> bool:
    """Whether tokens' vectors are ours (gr_ops.cuda.tokens). Sums of their gradients come in any order."""
    plain = all(x.dtype == torch.float32 and x.is_contiguous() and not hasattr(x, "to_local") for x in tables)
    return plain and not torch.are_deterministic_algorithms_enabled() and all(map(trains_in_kernels, tables))


def embedded(*arguments: Any) -> torch.Tensor:
    """gr_ops.cuda.tokens.embed.tokens"""
    x_LD: torch.Tensor = _cuda("tokens.embed").tokens(*arguments)
    return x_LD


def norms_scored(x_LD: torch.Tensor, norm: nn.LayerNorm) -> bool:
    """Whether the norm before a head is ours."""
    fits = x_LD.dtype == torch.float32 and x_LD.shape[1] <= WIDEST_ROWS and not hasattr(norm.weight, "to_local")
    return fits and trains_in_kernels(x_LD)


def scored(x_LD: torch.Tensor, at_I: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    """norm(x[at]); under autocast of its type, which the product behind it would round to. No row twice."""
    out: torch.Tensor = _cuda("tokens.scored").norm(x_LD, at_I, norm.weight, norm.bias, norm.eps, _dtype(x_LD))
    return out


def has_sampled_softmax(query: torch.Tensor, rows: torch.Tensor) -> bool:
    """Whether the loss of retrieval is ours: sampled_softmax."""
    plain = query.dtype == rows.dtype and not any(hasattr(x, "to_local") for x in (query, rows))
    on_cpu = query.device.type == rows.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return plain and on_cpu and hasattr(torch.ops.mxrec, "sampled_softmax")


def _cuda(name: str) -> Any:
    return importlib.import_module(f"gr_ops.cuda.{name}")


def _dtype(x: torch.Tensor) -> torch.dtype:
    """Autocast's, where it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _rounded(weight: torch.Tensor) -> torch.Tensor:
    """Of autocast's type, where it is on."""
    return weight.to(_dtype(weight))


def has_bias(device: torch.device) -> bool:
    """Whether time buckets and the relative bias are ours: hstu_time_buckets, hstu_relative_bias."""
    return device.type == "cpu" and hasattr(torch.ops.mxrec, "hstu_relative_bias")
