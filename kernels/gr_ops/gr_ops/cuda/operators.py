"""Registers the kernels: hstu_dense, hstu_jagged and their gradients on CUDA tensors, and hstu_relative.

The schemas and what raises are those of the other devices (csrc/hstu): the Meta kernel, given the tensors themselves,
checks the arguments and makes the results. What offsets and counts hold is looked at where it is on the host, where the
longest row must be found anyway, and with MXREC_CHECK=1. Triton is imported by the first call.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import torch

META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
Tensors = tuple[torch.Tensor, ...]
Offsets = torch.Tensor | Sequence[int] | None


def attention() -> Any:
    """gr_ops.cuda.attention."""
    return importlib.import_module("gr_ops.cuda.attention")


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, mask_type: int = 0, longest: int = 0, scale: float = 0.0, layout: str = "normal",
    offsets: Offsets = None,
) -> torch.Tensor:  # fmt: skip
    op = torch.ops.mxrec.hstu_dense.tensor if isinstance(offsets, torch.Tensor) else torch.ops.mxrec.hstu_dense.default
    arguments = (q, k, v, mask, bias, mask_type, longest, scale, layout, offsets)
    out = op.redispatch(META, *arguments)
    _look_inside(op, arguments, offsets, longest, layout)
    attention().attend(_problem(q, k, v, mask, bias, mask_type, longest, scale, layout, offsets), _rows(out))
    return out


def dense_backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
    bias: torch.Tensor | None, layout: str, mask_type: int, longest: int, scale: float = 0.0, offsets: Offsets = None,
) -> Tensors:  # fmt: skip
    ops = torch.ops.mxrec.hstu_dense_backward
    op = ops.tensor if isinstance(offsets, torch.Tensor) else ops.default
    arguments = (grad, q, k, v, mask, bias, layout, mask_type, longest, scale, offsets)
    results = op.redispatch(META, *arguments)
    _look_inside(op, arguments, offsets, longest, layout)
    return _backward(_problem(q, k, v, mask, bias, mask_type, longest, scale, layout, offsets), grad, results)


def jagged(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, mask_type: int = 0, longest: int = 0, scale: float = 0.0,
    offsets: torch.Tensor | None = None, contexts: torch.Tensor | None = None, targets: torch.Tensor | None = None,
    group: int | None = 0, alpha: float | None = 1.0, window: int = 0, whole: int = 0, deterministic: bool = False,
    distance: int = -1,
) -> torch.Tensor:  # fmt: skip
    op = torch.ops.mxrec.hstu_jagged.equal
    common = (mask, bias, mask_type, longest, scale, offsets, contexts, targets, group, alpha, window, whole)
    arguments = (q, k, v, *common, deterministic, distance)
    out = op.redispatch(META, *arguments)
    _look_inside(op, arguments, offsets, longest)
    p = _problem(
        q, k, v, mask, bias, mask_type, longest, scale, "jagged", offsets, contexts, targets, group or 0, alpha, window,
        whole, deterministic, distance,
    )  # fmt: skip
    attention().attend(p, out)
    return out


def jagged_backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, mask_type: int = 0, longest: int = 0, scale: float = 0.0,
    offsets: torch.Tensor | None = None, contexts: torch.Tensor | None = None, targets: torch.Tensor | None = None,
    group: int | None = 0, alpha: float | None = 1.0, window: int = 0, whole: int = 0, deterministic: bool = False,
    distance: int = -1,
) -> Tensors:  # fmt: skip
    op = torch.ops.mxrec.hstu_jagged_backward.equal
    common = (mask, bias, mask_type, longest, scale, offsets, contexts, targets, group, alpha, window, whole)
    arguments = (grad, q, k, v, *common, deterministic, distance)
    results = op.redispatch(META, *arguments)
    _look_inside(op, arguments, offsets, longest)
    p = _problem(
        q, k, v, mask, bias, mask_type, longest, scale, "jagged", offsets, contexts, targets, group or 0, alpha, window,
        whole, deterministic, distance,
    )  # fmt: skip
    return _backward(p, grad, results)


def gradients(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
    bias: torch.Tensor | None, layout: str, mask_type: int, longest: int, longest_key: int, scale: float, alpha: float,
    offset_list: Sequence[int] | None, offsets: torch.Tensor | None, key_offsets: torch.Tensor | None,
    contexts: torch.Tensor | None, targets: torch.Tensor | None, group: int, window: int, whole: int,
    deterministic: bool, distance: int, bias_grad: bool,
) -> Tensors:  # fmt: skip
    """What autograd calls for the others."""
    if key_offsets is not None:
        raise NotImplementedError("hstu_gradients: seq_offset_k (hstu_varlen) on a CUDA tensor; use the CPU or an NPU")
    op = torch.ops.mxrec.hstu_gradients.default
    arguments = (
        grad, q, k, v, mask, bias, layout, mask_type, longest, longest_key, scale, alpha, offset_list, offsets,
        key_offsets, contexts, targets, group, window, whole, deterministic, distance, bias_grad,
    )  # fmt: skip
    results = op.redispatch(META, *arguments)
    given = offset_list if offsets is None else offsets
    _look_inside(op, arguments, given, longest, layout)
    p = _problem(
        q, k, v, mask, bias, mask_type, longest, scale, layout, given, contexts, targets, group, alpha, window, whole,
        deterministic, distance,
    )  # fmt: skip
    return _backward(p, grad, results, bias_grad)


def _backward(p: Any, grad: torch.Tensor, results: Tensors, bias_grad: bool = True) -> Tensors:
    *of_inputs, of_bias = results
    attention().gradients(p, _rows(grad), *(_rows(x) for x in of_inputs))
    if p.square is not None and bias_grad:
        attention().square_gradient(p, _rows(grad), of_bias)
    return results


def _problem(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor | None,
    mask_type: int, longest: int, scale: float, layout: str, offsets: Offsets,
    contexts: torch.Tensor | None = None, targets: torch.Tensor | None = None, group: int = 0,
    alpha: float | None = 1.0, window: int = 0, whole: int = 0, deterministic: bool = False,
    distance: int = -1,
) -> Any:  # fmt: skip
    if layout == "normal":
        rows, longest = q.shape[:2]
        offsets = torch.arange(rows + 1, device=q.device) * longest
    elif not isinstance(offsets, torch.Tensor):
        offsets = torch.tensor(offsets, device=q.device)
    if not longest and len(q):
        longest = int(offsets.diff().max())
    return attention().Problem(
        q=_rows(q), k=_rows(k), v=_rows(v), offsets=offsets, longest=longest, scale=scale or 1 / max(longest, 1),
        alpha=1.0 if alpha is None else alpha, mask_type=mask_type, contexts=contexts, targets=targets,
        group=max(group, 1), window=window, whole=whole, distance=distance,
        mask=mask.contiguous() if mask is not None and mask_type == 3 else None,
        square=None if bias is None else bias.contiguous(), fixed=deterministic,
    )  # fmt: skip


def _rows(x: torch.Tensor) -> torch.Tensor:
    """[B, S, N, D] and [L, N, D] alike as [tokens, N, D]."""
    return x.flatten(0, 1) if x.dim() == 4 else x


def _look_inside(op: Any, arguments: tuple[Any, ...], offsets: Offsets, longest: int, layout: str = "jagged") -> None:
    """Raises what the CPU's operator does of offsets and counts: it gets them with tokens of no heads."""
    on_host = not isinstance(offsets, torch.Tensor)
    looked = any(isinstance(x, torch.Tensor) and x.dim() == 3 and not x.shape[1] for x in arguments)
    if layout == "jagged" and not looked and (on_host or not longest or os.environ.get("MXREC_CHECK") == "1"):
        op(*(_without_heads(x) if isinstance(x, torch.Tensor) else x for x in arguments))


def _without_heads(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 3:
        return torch.empty(len(x), 0, x.shape[2], dtype=x.dtype)
    return x.cpu() if x.dim() == 1 else torch.empty(1, dtype=x.dtype).expand(1, 1, *x.shape[2:])


@torch.library.custom_op("mxrec::hstu_relative", mutates_args=(), device_types="cuda")
def relative(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, time: torch.Tensor, times: torch.Tensor,
    cells: torch.Tensor, seq_offset: torch.Tensor, num_context: torch.Tensor | None, num_target: torch.Tensor | None,
    target_group_size: int, max_seq_len: int, silu_scale: float,
) -> torch.Tensor:  # fmt: skip
    """hstu_jagged whose bias is position[distance in tokens] + time[bucket of the distance in time]; see Relative.

    q, k [L, N, A], v [L, N, V] float32, float16 or bfloat16 -> [L, N, V]; position [P], time [T] float32; times [L]
    int64, seconds; cells [512] int64; max_seq_len of the longest row, at most P. All targets stand where the next token
    would. RuntimeError where a shape, type or device does not fit.
    """
    p, out = _relative_problem(
        q, k, v, position, time, times, cells, seq_offset, num_context, num_target, target_group_size, max_seq_len,
        silu_scale,
    )  # fmt: skip
    attention().attend(p, out)
    return out


@torch.library.custom_op("mxrec::hstu_relative_gradients", mutates_args=(), device_types="cuda")
def relative_gradients(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, time: torch.Tensor,
    times: torch.Tensor, cells: torch.Tensor, seq_offset: torch.Tensor, num_context: torch.Tensor | None,
    num_target: torch.Tensor | None, target_group_size: int, max_seq_len: int, silu_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Of q, k, v, position and time."""
    p, _ = _relative_problem(
        q, k, v, position, time, times, cells, seq_offset, num_context, num_target, target_group_size, max_seq_len,
        silu_scale,
    )  # fmt: skip
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    attention().gradients(p, grad, dq, dk, dv)
    return dq, dk, dv, *attention().relative_gradient(p, grad)


def _relative_problem(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, time: torch.Tensor, times: torch.Tensor,
    cells: torch.Tensor, offsets: torch.Tensor, contexts: torch.Tensor | None, targets: torch.Tensor | None,
    group: int, longest: int, scale: float,
) -> tuple[Any, torch.Tensor]:  # fmt: skip
    out = torch.ops.mxrec.hstu_jagged.equal.redispatch(
        META, q, k, v, None, None, 0, longest, scale, offsets, contexts, targets, group
    )
    wanted = {"position": (position, torch.float32, (None,)), "time": (time, torch.float32, (None,)),
              "times": (times, torch.int64, (len(q),)), "cells": (cells, torch.int64, (512,))}  # fmt: skip
    for name, (tensor, dtype, shape) in wanted.items():
        fits = tensor.dim() == 1 and shape[0] in (None, len(tensor)) and len(tensor)
        if tensor.dtype != dtype or tensor.device != q.device or not (fits or name == "times" and not len(q)):
            raise RuntimeError(f"hstu_relative: {name} does not fit; expected {dtype} {list(shape)} on {q.device}, got "
                               f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}")  # fmt: skip
    if longest > len(position):
        raise RuntimeError(f"hstu_relative: position has {len(position)} distances; expected max_seq_len={longest}")
    _look_inside(
        torch.ops.mxrec.hstu_jagged.equal, (q, k, v, None, None, 0, longest, scale, offsets, contexts, targets, group),
        offsets, longest,
    )  # fmt: skip
    p = _problem(q, k, v, None, None, 0, longest, scale, "jagged", offsets, contexts, targets, group)
    relative = attention().Relative(position, time, times, cells)
    return attention().with_relative(p, relative), out


@relative.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any) -> torch.Tensor:
    return q.new_empty(*q.shape[:2], v.shape[2])


@relative_gradients.register_fake
def _(grad: torch.Tensor, *inputs: Any) -> Tensors:
    return tuple(x.new_empty(x.shape) for x in inputs[:5])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:10])
    ctx.rest = inputs[10:]


def _differentiate(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    found = torch.ops.mxrec.hstu_relative_gradients(grad, *ctx.saved_tensors, *ctx.rest)
    return *found, *[None] * 8


relative.register_autograd(_differentiate, setup_context=_keep)

KERNELS = {
    "hstu_dense": dense, "hstu_dense.tensor": dense, "hstu_dense_backward": dense_backward,
    "hstu_dense_backward.tensor": dense_backward, "hstu_jagged.equal": jagged,
    "hstu_jagged_backward.equal": jagged_backward, "hstu_gradients": gradients,
}  # fmt: skip
RELATIVE = (relative, relative_gradients)


def register(device: str) -> torch.library.Library:
    """Of KERNELS, for a key of the dispatcher; they stay as long as what is returned."""
    library = torch.library.Library("mxrec", "IMPL")
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, device)
    return library


_registered = register("CUDA")
