"""From tensors to the kernels: pointwise attention of HSTU over jagged rows, and its gradients.

    X = q k^T + bias,  S = alpha X,  P = SiLU(S) scale mask,  O = P v

Written for tensors of any device that Triton has; what the arguments may be is checked before (operators.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton

from gr_ops.cuda import backward, bias_gradients, forward, paths, relative_bias
from gr_ops.cuda.mask import DISTANCE, HISTORY, LOWER, USER
from gr_ops.cuda.tiles import NO_BIAS, RELATIVE, SQUARE

NARROWEST = 16  # columns of an operand of a product on tensor cores


@dataclass(frozen=True)
class Relative:
    """Learned numbers by distance and by time bucket; times and `relative_bias.cells_of` tell the bucket."""

    position_P: torch.Tensor  # float32
    time_T: torch.Tensor  # float32
    times_L: torch.Tensor  # int64, seconds
    cells: torch.Tensor  # [512] int64


@dataclass(frozen=True)
class Problem:
    """q, k [L, N, A], v [L, N, V]; offsets [B + 1], contexts and targets [B] of any integer type."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    offsets: torch.Tensor
    longest: int
    scale: float
    alpha: float = 1.0
    mask_type: int = LOWER
    contexts: torch.Tensor | None = None
    targets: torch.Tensor | None = None
    group: int = 1
    window: int = 0  # max_attn_len: tokens of the history; 0: none
    whole: int = 0  # the last tokens of the history that a window does not narrow
    distance: int = -1  # window_size: tokens of the row; -1: none
    mask: torch.Tensor | None = None  # [B or 1, N or 1, M, M]
    square: torch.Tensor | None = None  # the same; a bias
    relative: Relative | None = None
    fixed: bool = False  # the same shapes of tiles in every run

    @property
    def empty(self) -> bool:
        return not self.v.numel() or not self.longest

    @property
    def counts(self) -> bool:
        return self.contexts is not None or self.targets is not None or self.windowed != 0

    @property
    def windowed(self) -> int:
        return DISTANCE if self.distance >= 0 else HISTORY if self.window > 0 else 0

    @property
    def sequences(self) -> int:
        return len(self.offsets) - 1


def attend(p: Problem, out: torch.Tensor) -> None:
    """Writes out [L, N, V]."""
    if p.empty:
        out.zero_()
        return
    hopper = paths.hopper(p, gradients=False)
    if hopper is not None:
        hopper.attend(p, out)
    else:
        attend_in_triton(p, out)


def attend_in_triton(p: Problem, out: torch.Tensor) -> None:
    """`attend` by the kernels that take every problem; p is not empty."""
    q, k, v = _inputs(p)
    launch = forward.forward.at(_grid("Q", p), p.fixed, p.longest)
    strides = (x.stride(0) for x in (q, k, v, out))
    launch(q, k, v, out, *_tables(p), *_masks(p), *_counts(p), *_numbers(p), *_squares(p), *strides, **_kind(p))


def gradients(p: Problem, grad: torch.Tensor, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> None:
    """Writes dq, dk, dv, shaped as q, k, v and contiguous."""
    if p.empty:
        for x in (dq, dk, dv):
            x.zero_()
        return
    hopper = paths.hopper(p, gradients=True)
    if hopper is not None:
        hopper.gradients(p, grad, dq, dk, dv)
    else:
        gradients_in_triton(p, grad, dq, dk, dv)


def gradients_in_triton(p: Problem, grad: torch.Tensor, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor) -> None:
    """`gradients` by the kernels that take every problem; p is not empty."""
    q, k, v = _inputs(p)
    grad = _side_by_side(grad)
    strides = [x.stride(0) for x in (q, k, v, grad)]
    common = (*_tables(p), *_masks(p), *_counts(p), *_numbers(p), *_squares(p), *strides)
    of_keys = backward.keys_and_values.at(_grid("K", p), p.fixed, p.longest)
    of_keys(q, k, v, grad, dk, dv, *common, dk.stride(0), dv.stride(0), **_kind(p))
    backward.queries.at(_grid("Q", p), p.fixed, p.longest)(q, k, v, grad, dq, *common, dq.stride(0), **_kind(p))


def square_gradient(p: Problem, grad: torch.Tensor, out: torch.Tensor) -> None:
    """Writes out, shaped as the square bias and contiguous; 0 where no query sees a key."""
    assert p.square is not None
    if p.empty:
        out.zero_()
        return
    q, k, v = _inputs(p)
    grad, tile = _side_by_side(grad), bias_gradients.SQUARE_TILE
    rows, heads, side = out.shape[:3]
    tiles = triton.cdiv(side, tile)
    kind = _kind(p)
    del kind["BIAS"]
    bias_gradients.squares.at((tiles, tiles, rows * heads), p.fixed, p.longest)(
        q, k, v, grad, out, *_masks(p), *_counts(p), p.sequences, *_numbers(p), *_squares(p),
        *(x.stride(0) for x in (q, k, v, grad)), **kind, EACH_ROW=rows > 1, EACH_HEAD=heads > 1, K=tile,
    )  # fmt: skip


def relative_gradient(p: Problem, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[P], [T] float32."""
    assert p.relative is not None
    position, time, block = p.relative.position_P, p.relative.time_T, bias_gradients.BLOCK
    if p.empty:
        return torch.zeros_like(position), torch.zeros_like(time)
    q, k, v = _inputs(p)
    grad = _side_by_side(grad)
    blocks, buckets = triton.cdiv(p.longest, block), triton.next_power_of_2(len(time))
    kind = {name: value for name, value in _kind(p).items() if name not in ("BIAS", "MASK", "WINDOW")}
    kind |= {"T": buckets, "K": block}
    strides = [x.stride(0) for x in (q, k, v, grad)]
    of_position = q.new_empty(p.sequences, blocks, block, block, dtype=torch.float32)
    of_time = q.new_empty(p.sequences * blocks, buckets, dtype=torch.float32)
    bias_gradients.diagonals.at((blocks, p.sequences), p.fixed, p.longest)(
        q, k, v, grad, of_position, of_time, *_tables(p), *_counts(p), p.scale, p.alpha, *strides, **kind
    )
    dposition = relative_bias.position_gradient(of_position, len(position))
    dtime = of_time.sum(0)
    if p.counts:
        of_key, of_near = (q.new_empty(p.sequences, blocks * block, dtype=torch.float32) for _ in range(2))
        del kind["COUNTS"]
        bias_gradients.off_diagonals.at((blocks, p.sequences), p.fixed, p.longest)(
            q, k, v, grad, of_key, of_near, of_time, *_tables(p), *_counts(p), p.scale, p.alpha, p.group, *strides,
            **kind,
        )  # fmt: skip
        history_B = p.offsets.diff() - (0 if p.targets is None else p.targets)
        dposition = dposition + relative_bias.gradient_before_targets(of_key, history_B, len(position))
        dposition[0] += of_near.sum()
        dtime = dtime + of_time.sum(0)
    return dposition, dtime[: len(time)]


def _inputs(p: Problem) -> tuple[torch.Tensor, ...]:
    return tuple(_side_by_side(x) for x in (p.q, p.k, p.v))


def _side_by_side(x_LNA: torch.Tensor) -> torch.Tensor:
    """The heads of a token lie side by side; tokens may be further apart, as in a part of a product."""
    packed = x_LNA.stride(2) == 1 and x_LNA.stride(1) == x_LNA.shape[2]
    return x_LNA if packed else x_LNA.contiguous()


def _grid(tile: str, p: Problem) -> Any:
    if p.sequences * p.q.shape[1] > 65_535:  # CUDA's limit of a grid's second and third dimension
        raise RuntimeError(
            f"hstu on CUDA: {p.sequences} rows x {p.q.shape[1]} heads; expected at most 65,535 in all: split the batch"
        )
    return lambda meta: (triton.cdiv(p.longest, meta[tile]), p.sequences * p.q.shape[1])


def _kind(p: Problem) -> dict[str, Any]:
    """What the compiler has to know."""
    heads, dim, value_dim = *p.q.shape[1:], p.v.shape[2]
    bias = SQUARE if p.square is not None else RELATIVE if p.relative is not None else NO_BIAS
    return {
        "N": heads, "A": dim, "V": value_dim, "AP": _padded(dim), "VP": _padded(value_dim), "BIAS": bias,
        "MASK": p.mask_type, "COUNTS": p.counts, "WINDOW": p.windowed, "SCALED": p.alpha != 1.0,
        "FAST": p.q.dtype in (torch.bfloat16, torch.float16) and p.q.is_cuda,
        # Three products in TF32 for one in float32: of its precision, on tensor cores. Others ignore it.
        "DOT": "tf32x3",
    }  # fmt: skip


def _padded(dim: int) -> int:
    return max(NARROWEST, triton.next_power_of_2(dim))


def _tables(p: Problem) -> tuple[torch.Tensor, ...]:
    if p.relative is None:
        return (p.q,) * 5  # never read
    high, low = relative_bias.split_times(p.relative.times_L)
    return p.relative.position_P, p.relative.time_T, high, low, p.relative.cells


def _masks(p: Problem) -> tuple[torch.Tensor, ...]:
    mask = p.mask if p.mask_type == USER else None
    if mask is not None and mask.dtype == torch.bool:
        mask = mask.view(torch.uint8)
    return (p.q if p.square is None else p.square), (p.q if mask is None else mask)


def _counts(p: Problem) -> tuple[torch.Tensor, ...]:
    """Offsets, contextual tokens and targets of each sequence."""
    none = p.offsets.new_zeros(p.sequences) if p.counts else p.offsets
    contexts, targets = (none if x is None else x.contiguous() for x in (p.contexts, p.targets))
    return p.offsets.contiguous(), contexts, targets


def _numbers(p: Problem) -> tuple[float, float, int, int, int]:
    window = p.distance if p.windowed == DISTANCE else p.window
    return p.scale, p.alpha, p.group, min(window, p.longest), p.whole


def _squares(p: Problem) -> tuple[int, ...]:
    """The steps of the square bias and of the user's mask to the next sequence, head and query; 0 where shared."""
    steps: list[int] = []
    for x in (p.square, p.mask if p.mask_type == USER else None):
        if x is None:
            steps += [0, 0, 0]
        else:
            steps += [x.stride(0) if x.shape[0] > 1 else 0, x.stride(1) if x.shape[1] > 1 else 0, x.stride(2)]
    return tuple(steps)


def with_relative(p: Problem, relative: Relative) -> Problem:
    return replace(p, relative=relative)
