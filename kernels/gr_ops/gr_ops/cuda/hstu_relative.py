"""hstu_relative and its gradients: hstu_jagged with the relative bias inside, an operator of CUDA tensors alone."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]
CELLS = 512


@torch.library.custom_op("mxrec::hstu_relative", mutates_args=(), device_types="cuda")
def relative(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    position: torch.Tensor,
    time: torch.Tensor,
    times: torch.Tensor,
    cells: torch.Tensor,
    seq_offset: torch.Tensor,
    num_context: torch.Tensor | None,
    num_target: torch.Tensor | None,
    target_group_size: int,
    max_seq_len: int,
    silu_scale: float,
) -> torch.Tensor:
    """hstu_jagged whose bias is position[distance in tokens] + time[bucket of the distance in time]; see Relative.

    q, k [L, N, A], v [L, N, V] float32, float16 or bfloat16 -> [L, N, V]; position [P], time [T] float32; times [L]
    int64, seconds; cells [512] int64; max_seq_len of the longest row, at most P. All targets stand where the next token
    would. RuntimeError where a shape, type or device does not fit.
    """
    rows = (seq_offset, num_context, num_target, target_group_size, max_seq_len, silu_scale)
    p, out = _problem((q, k, v), (position, time, times, cells), rows)
    _attention().attend(p, out)
    return out


@torch.library.custom_op("mxrec::hstu_relative_gradients", mutates_args=(), device_types="cuda")
def relative_gradients(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    position: torch.Tensor,
    time: torch.Tensor,
    times: torch.Tensor,
    cells: torch.Tensor,
    seq_offset: torch.Tensor,
    num_context: torch.Tensor | None,
    num_target: torch.Tensor | None,
    target_group_size: int,
    max_seq_len: int,
    silu_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of q, k, v, position and time."""
    rows = (seq_offset, num_context, num_target, target_group_size, max_seq_len, silu_scale)
    p, _ = _problem((q, k, v), (position, time, times, cells), rows)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    _attention().gradients(p, grad, dq, dk, dv)
    return dq, dk, dv, *_attention().relative_gradient(p, grad)


def _attention() -> Any:
    """gr_ops.cuda.attention; Triton is imported by the first call."""
    return importlib.import_module("gr_ops.cuda.attention")


def _problem(inputs: Tensors, tables: Tensors, rows: tuple[Any, ...]) -> tuple[Any, torch.Tensor]:
    """The problem and an empty output, once all is checked: the rest as hstu_jagged checks it."""
    from gr_ops.cuda.arguments import Arguments
    from gr_ops.cuda.hstu import problem_of
    from gr_ops.cuda.problem import Relative

    offsets, contexts, targets, group, longest, scale = rows
    jagged = (*inputs, None, None, 0, longest, scale, offsets, contexts, targets, group)
    given = Arguments(torch.ops.mxrec.hstu_jagged.equal, jagged)
    out = given.results(look=False)
    _check_tables(inputs[0], tables, longest)
    given.look_if_asked()
    return replace(problem_of(given), relative=Relative(*tables)), out


def _check_tables(q: torch.Tensor, tables: Tensors, longest: int) -> None:
    wanted = {
        "position": (torch.float32, None),
        "time": (torch.float32, None),
        "times": (torch.int64, len(q)),
        "cells": (torch.int64, CELLS),
    }
    for tensor, (name, (dtype, size)) in zip(tables, wanted.items()):
        fits = tensor.dim() == 1 and size in (None, len(tensor)) and len(tensor)
        if tensor.dtype != dtype or tensor.device != q.device or not (fits or name == "times" and not len(q)):
            raise RuntimeError(
                f"hstu_relative: {name} does not fit; expected {dtype} {[size]} on {q.device}, got "
                f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
            )
    if longest > len(tables[0]):
        raise RuntimeError(f"hstu_relative: position has {len(tables[0])} distances; expected max_seq_len={longest}")


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
OPERATORS = (relative, relative_gradients)
