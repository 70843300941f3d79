"""Numbers of float32 as the sum of two of bfloat16: the nearest one, and the nearest one to what is left. Together they
have 16 bits of mantissa."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024
INTERPRETED = torch.float16  # of Triton's interpreter, whose version 3.2 takes bfloat16's bits for numbers


@triton.jit
def take_apart(x, out, count, stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """x [tokens, WIDTH] in steps of `stride`; out [tokens, 2, WIDTH]."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    token, column = place // WIDTH, place % WIDTH
    value = tl.load(x + token * stride + column, mask=inside, other=0.0)
    high = value.to(out.dtype.element_ty)
    wide = high.to(tl.float32)
    low = tl.where(tl.abs(wide) < float("inf"), value - wide, 0.0).to(out.dtype.element_ty)
    to = out + token * (2 * WIDTH) + column
    tl.store(to, high, mask=inside)
    tl.store(to + WIDTH, low, mask=inside)


def parts(x_LNA: torch.Tensor) -> torch.Tensor:
    """[L, 2, N, A] of float32 whose heads lie side by side."""
    tokens, heads, width = x_LNA.shape
    out = x_LNA.new_empty(tokens, 2, heads, width, dtype=torch.bfloat16 if x_LNA.is_cuda else INTERPRETED)
    count = x_LNA.numel()
    take_apart[(triton.cdiv(count, BLOCK),)](x_LNA, out, count, x_LNA.stride(0), heads * width, BLOCK)
    return out
