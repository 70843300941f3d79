"""From tensors to the kernels: pointwise attention of HSTU over jagged rows, and its gradients.

    X = q k^T + bias,  S = alpha X,  P = SiLU(S) scale mask,  O = P v

Written for tensors of any device that Triton has; what the arguments may be is checked before (hstu.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton

from gr_ops.cuda import backward, bias_gradients, forward, paths, precision, relative_bias, split
from gr_ops.cuda.mask import DISTANCE, USER
from gr_ops.cuda.problem import Problem
from gr_ops.cuda.specialization import DENSE, NO_BIAS, RELATIVE, Specialization

NARROWEST = 16  # columns of an operand of a product on tensor cores
Tensors = tuple[torch.Tensor, ...]


def attend(p: Problem, out: torch.Tensor) -> None:
    """Writes out [L, N, V], contiguous."""
    if p.empty:
        out.zero_()
        return
    hopper = paths.hopper(p)
    if hopper is not None:
        hopper.attend(p, out)
    else:
        attend_in_triton(p, out)


def attend_in_triton(p: Problem, out: torch.Tensor) -> None:
    """`attend` by the kernels that take every problem; p is not empty."""
    known, (q, k, v) = _in_parts(p, *_inputs(p))
    launch = forward.forward.at(_grid("Q", p.longest, p), p.deterministic, p.longest_key)
    steps = _steps(q, k, v)
    launch(q, k, v, out, *_tables(p), *_squares(p), *_sequences(p), *_pages(p), *_numbers(p), *steps, S=known)


def gradients(p: Problem, grad: torch.Tensor, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> Tensors:
    """Writes dq, dk, dv, shaped as q, k, v and contiguous. Returns the gradients [P], [T] of a relative bias's tables,
    float32; without one nothing."""
    if p.empty:
        for x in (dq, dk, dv):
            x.zero_()
        return () if p.relative is None else tuple(map(torch.zeros_like, (p.relative.position_P, p.relative.time_T)))
    hopper = paths.hopper(p)
    if hopper is not None:
        return hopper.gradients(p, grad, dq, dk, dv) or ()
    gradients_in_triton(p, grad, dq, dk, dv)
    return () if p.relative is None else relative_gradient(p, grad)


def gradients_in_triton(p: Problem, grad: torch.Tensor, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> None:
    """`gradients` by the kernels that take every problem; p is not empty."""
    known, (q, k, v, grad) = _in_parts(p, *_inputs(p), _side_by_side(grad))
    common = (*_tables(p), *_squares(p), *_sequences(p), *_numbers(p), *_steps(q, k, v, grad))
    of_keys = backward.keys_and_values.at(_grid("K", p.longest_key, p), p.deterministic, p.longest_key)
    of_keys(q, k, v, grad, dk, dv, *common, S=known)
    of_queries = backward.queries.at(_grid("Q", p.longest, p), p.deterministic, p.longest_key)
    of_queries(q, k, v, grad, dq, *common, S=known)


def dense_gradient(p: Problem, grad: torch.Tensor, out: torch.Tensor) -> None:
    """Writes out, shaped as the dense bias and contiguous; 0 where no query sees a key."""
    assert p.dense is not None
    if p.empty:
        out.zero_()
        return
    q, k, v = _inputs(p)
    grad, tile = _side_by_side(grad), bias_gradients.DENSE_TILE
    batches, heads, side = out.shape[:3]
    tiles = triton.cdiv(side, tile)
    kernel = bias_gradients.dense.at((tiles, tiles, batches * heads), p.deterministic, p.longest_key)
    steps = _steps(q, k, v, grad)
    of_rows = (*_squares(p), *_sequences(p), p.sequences, *_numbers(p))
    kernel(q, k, v, grad, out, *of_rows, *steps, S=specialize(p), K=tile)


def relative_gradient(p: Problem, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[P], [T] float32, by the kernels that take every problem; p is not empty."""
    assert p.relative is not None
    position, time, block = p.relative.position_P, p.relative.time_T, bias_gradients.BLOCK
    q, k, v = _inputs(p)
    grad = _side_by_side(grad)
    blocks, buckets = triton.cdiv(p.longest, block), triton.next_power_of_2(len(time))
    constants = {"S": specialize(p), "T": buckets, "K": block}
    offsets, _, contexts, targets = _sequences(p)
    common = (*_tables(p), offsets, contexts, targets, p.scale, p.alpha)
    strides = [x.stride(0) for x in (q, k, v, grad)]
    of_position = q.new_empty(p.sequences, blocks, block, block, dtype=torch.float32)
    of_time = q.new_empty(p.sequences * blocks, buckets, dtype=torch.float32)
    diagonals = bias_gradients.diagonals.at((blocks, p.sequences), p.deterministic, p.longest)
    diagonals(q, k, v, grad, of_position, of_time, *common, *strides, **constants)
    dposition = relative_bias.position_gradient(of_position, len(position))
    dtime = of_time.sum(0)
    if p.segments:
        of_key, of_near = (q.new_empty(p.sequences, blocks * block, dtype=torch.float32) for _ in range(2))
        off_diagonals = bias_gradients.off_diagonals.at((blocks, p.sequences), p.deterministic, p.longest)
        off_diagonals(q, k, v, grad, of_key, of_near, of_time, *common, p.group, *strides, **constants)
        history_B = p.offsets.diff() - (0 if p.targets is None else p.targets)
        dposition = dposition + relative_bias.gradient_before_targets(of_key, history_B, len(position))
        dposition[0] += of_near.sum()
        dtime = dtime + of_time.sum(0)
    return dposition, dtime[: len(time)]


def specialize(p: Problem) -> Specialization:
    """What the compiler has to know."""
    _, heads, dim = p.q.shape
    value_dim = p.v.shape[2]
    mask = p.mask if p.mask_type == USER else None
    return Specialization(
        heads=heads,
        dim=dim,
        value_dim=value_dim,
        padded=_padded(dim),
        padded_value=_padded(value_dim),
        mask=p.mask_type,
        segments=p.segments,
        window=p.windowed,
        bias=DENSE if p.dense is not None else RELATIVE if p.relative is not None else NO_BIAS,
        scaled=p.alpha != 1.0,
        fast=p.q.dtype in (torch.bfloat16, torch.float16) and p.q.is_cuda,
        varlen=p.varlen,
        page_size=0 if p.pages is None else p.pages.size,
        bias_heads=0 if p.dense is None else p.dense.shape[1],
        bias_rows=p.dense is not None and p.dense.shape[0] > 1,
        mask_heads=0 if mask is None else mask.shape[1],
        mask_rows=mask is not None and mask.shape[0] > 1,
        precision=precision.of_float32(),
    )


def _in_parts(p: Problem, *tensors: torch.Tensor) -> tuple[Specialization, Tensors]:
    """The tensors as products take them; those in pages stay whole."""
    known = specialize(p)
    if p.pages is not None or not precision.in_two_parts(p.q):
        return known, tensors
    return replace(known, split=True, fast=p.q.is_cuda), tuple(split.parts(x) for x in tensors)


def _inputs(p: Problem) -> Tensors:
    return tuple(_side_by_side(x) for x in (p.q, p.k, p.v))


def _side_by_side(x_LNA: torch.Tensor) -> torch.Tensor:
    """The heads of a token lie side by side; tokens may be further apart, as in a part of a product."""
    packed = x_LNA.stride(2) == 1 and x_LNA.stride(1) == x_LNA.shape[2]
    return x_LNA if packed else x_LNA.contiguous()


def _steps(*tensors: torch.Tensor) -> tuple[int, ...]:
    """From one token to the next."""
    return tuple(x.stride(0) for x in tensors)


def _grid(tile: str, longest: int, p: Problem) -> Any:
    if p.sequences * p.q.shape[1] > 65_535:  # CUDA's limit of a grid's second and third dimension
        raise RuntimeError(
            f"hstu on CUDA: {p.sequences} rows x {p.q.shape[1]} heads; expected at most 65,535 in all: split the batch"
        )
    return lambda meta: (triton.cdiv(longest, meta[tile]), p.sequences * p.q.shape[1])


def _padded(dim: int) -> int:
    return max(NARROWEST, triton.next_power_of_2(dim))


def _tables(p: Problem) -> Tensors:
    if p.relative is None:
        return (p.q,) * 5  # never read
    high, low = relative_bias.split_times(p.relative.times_L)
    return p.relative.position_P, p.relative.time_T, high, low, p.relative.cells


def _squares(p: Problem) -> Tensors:
    """Dense bias and user's mask."""
    mask = p.mask if p.mask_type == USER else None
    if mask is not None and mask.dtype == torch.bool:
        mask = mask.view(torch.uint8)
    return tuple(p.q if x is None else x.contiguous() for x in (p.dense, mask))


def _sequences(p: Problem) -> Tensors:
    """Offsets of queries and of keys, contextual tokens and targets of each sequence."""
    none = p.offsets.new_zeros(p.sequences) if p.segments else p.offsets
    contexts, targets = (none if x is None else x.contiguous() for x in (p.contexts, p.targets))
    offsets = p.offsets.contiguous()
    return offsets, offsets if p.key_offsets is None else p.key_offsets.contiguous(), contexts, targets


def _pages(p: Problem) -> Tensors:
    if p.pages is None:
        return (p.q, p.offsets, p.offsets, p.offsets)  # never read
    return p.pages.cache, *(x.contiguous() for x in (p.pages.offsets, p.pages.ids, p.pages.last))


def _numbers(p: Problem) -> tuple[float, float, int, int, int, int, int]:
    """Scales, group, window; the sides of the dense bias and of the user's mask."""
    window = p.distance if p.windowed == DISTANCE else p.window
    bias, mask = (0 if x is None else x.shape[3] for x in (p.dense, p.mask))
    return p.scale, p.alpha, p.group, min(window, p.longest_key), p.min_full, bias, mask
