"""What the kernels of attention have in common: rows of tokens, scores of one tile, SiLU and its slope.

Rows behind a sequence's last token are read as 0, so that they add nothing; their number is taken for the last one's.
Head dims need not be powers of two: A and V are those of the tensors, AP and VP the next powers of two from 16 on, and
the columns between are 0.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.relative_bias import time_bucket

NO_BIAS, RELATIVE, SQUARE = 0, 1, 2  # BIAS of the kernels


@triton.jit
def sigmoid(x, FAST: tl.constexpr):
    if FAST:  # one instruction; its error of 2^-11 is no more than that of the 16 bits that the result becomes
        half = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x * 0.5], dtype=tl.float32, is_pure=True, pack=1
        )
        return half * 0.5 + 0.5
    return tl.sigmoid(x)


@triton.jit
def rows(base, first, length, stride, WIDTH: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr):
    """[COUNT, PADDED] from token `first` on; 0 behind the last, and behind the last column."""
    token, column = first + tl.arange(0, COUNT), tl.arange(0, PADDED)
    inside = token[:, None] < length
    if WIDTH != PADDED:
        inside = inside & (column[None, :] < WIDTH)
    return tl.load(base + token[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def store(base, values, first, length, stride, WIDTH: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr):
    token, column = first + tl.arange(0, COUNT), tl.arange(0, PADDED)
    inside = token[:, None] < length
    if WIDTH != PADDED:
        inside = inside & (column[None, :] < WIDTH)
    at = token[:, None] * stride + column[None, :]
    tl.store(base + at, values.to(base.dtype.element_ty), mask=inside)


@triton.jit
def row_of_batch(offsets, contexts, targets, sequence, COUNTS: tl.constexpr):
    """Where a sequence begins, how long it is, its contextual tokens, and where its targets begin."""
    begin = tl.load(offsets + sequence).to(tl.int64)
    length = (tl.load(offsets + sequence + 1).to(tl.int64) - begin).to(tl.int32)
    context, history = length * 0, length
    if COUNTS:
        context = tl.load(contexts + sequence).to(tl.int32)
        history = length - tl.load(targets + sequence).to(tl.int32)
    return begin, length, context, history


@triton.jit
def moments(high, low, token, BIAS: tl.constexpr):
    """The times of tokens, in two parts; without a relative bias anything."""
    if BIAS == 1:
        upper, lower = tl.load(high + token), tl.load(low + token)
    else:
        upper, lower = token, token
    return upper, lower


@triton.jit
def biased(
    score, query, key, query_high, query_low, key_high, key_low, history, position, time, cells, square, side, alpha,
    BIAS: tl.constexpr, COUNTS: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """alpha (score + bias), of tokens [Q, 1] and [1, K] or the other way."""
    if BIAS == 1:
        bucket = time_bucket(query_high, query_low, key_high, key_low, cells)
        if COUNTS:  # all targets stand where the next token would
            distance = tl.minimum(query, history) - tl.minimum(key, history)
        else:
            distance = query - key
        score += tl.load(position + tl.maximum(distance, 0)) + tl.load(time + bucket)
    elif BIAS == 2:
        score += tl.load(square + query.to(tl.int64) * side + key).to(tl.float32)
    if SCALED:
        score *= alpha
    return score


@triton.jit
def weighed(values, query, key, found, mask, mask_side, MASK: tl.constexpr):
    """`values` where the key is seen, times the user's mask; else exactly 0."""
    if MASK == 3:
        factor = tl.load(mask + query.to(tl.int64) * mask_side + key).to(tl.float32)
        return tl.where(found & (factor != 0), values * factor, 0.0)
    return tl.where(found, values, 0.0)


@triton.jit
def silu_and_slope(score, FAST: tl.constexpr):
    """SiLU and its derivative."""
    at = sigmoid(score, FAST)
    silu = score * at
    return silu, at + silu * (1 - at)
