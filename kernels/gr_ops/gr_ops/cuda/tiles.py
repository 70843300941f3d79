"""What the kernels of attention have in common: sequences, rows of tokens, scores of one tile, SiLU and its slope.

Tokens are numbered by their key's place in the sequence; queries are the last of the keys. Rows behind a sequence's
last token are read as 0, so that they add nothing; their number is taken for the last one's.
Head dims need not be powers of two: WIDTH is that of the tensors, PADDED the next power of two from 16 on, and the
columns between are 0.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.relative_bias import time_bucket


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
def two_rows(
    base, first, length, stride, S: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr
):
    """`rows` and, of tensors in two parts, those of the second one."""
    N: tl.constexpr = S.value.heads
    high = rows(base, first, length, stride, WIDTH, PADDED, COUNT)
    low = high
    if S.value.split:
        low = rows(base + N * WIDTH, first, length, stride, WIDTH, PADDED, COUNT)
    return high, low


@triton.jit
def apart(x, like, S: tl.constexpr):
    """float32 in the type of tensors, and what that leaves."""
    high = x.to(like.dtype)
    low = high
    if S.value.split:
        low = (x - high.to(tl.float32)).to(like.dtype)
    return high, low


@triton.jit
def product(a, a_low, b, b_low, S: tl.constexpr):
    """a b; of two parts each without the product of the second ones, which is less than what these round off."""
    if S.value.split:
        small = tl.dot(a, b_low, tl.dot(a_low, b))
        return tl.dot(a, b, small)
    return tl.dot(a, b, input_precision=S.value.precision)


@triton.jit
def add_product(total, a, a_low, b, b_low, S: tl.constexpr):
    """total + `product`."""
    if S.value.split:
        total = tl.dot(a_low, b, total)
        total = tl.dot(a, b_low, total)
        return tl.dot(a, b, total)
    return tl.dot(a, b, total, input_precision=S.value.precision)


@triton.jit
def query_rows(
    base, first, shift, length, stride, S: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr
):
    """`rows` of queries, of which there are none before token `shift`; 0 there."""
    token, column = first + tl.arange(0, COUNT), tl.arange(0, PADDED)
    inside = token[:, None] < length
    if S.value.varlen:
        inside = inside & (token[:, None] >= shift)
    if WIDTH != PADDED:
        inside = inside & (column[None, :] < WIDTH)
    return tl.load(base + token[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def _in_pages(cache, pages, token, inside, PART: tl.constexpr, S: tl.constexpr, WIDTH: tl.constexpr):
    """Where tokens' rows are in a cache [pages, 2, page_size, N, D]; PART 0: keys, 1: values."""
    PAGE: tl.constexpr = S.value.page_size
    N: tl.constexpr = S.value.heads
    page = tl.load(pages + token // PAGE, mask=inside, other=0).to(tl.int64)
    return cache + ((page * 2 + PART) * PAGE + token % PAGE) * (N * WIDTH)


@triton.jit
def cached_rows(
    cache,
    pages,
    first,
    PART: tl.constexpr,
    S: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COUNT: tl.constexpr,
):
    """`rows`, all of them in pages; `first` is a multiple of COUNT."""
    PAGE: tl.constexpr = S.value.page_size
    N: tl.constexpr = S.value.heads
    row, column = tl.arange(0, COUNT), tl.arange(0, PADDED)
    if PAGE % COUNT == 0:  # one page has them all
        page = tl.load(pages + first // PAGE).to(tl.int64)
        begin = cache + ((page * 2 + PART) * PAGE + first % PAGE) * (N * WIDTH)
        place = begin + row[:, None] * (N * WIDTH) + column[None, :]
    else:
        place = _in_pages(cache, pages, first + row, row >= 0, PART, S, WIDTH)[:, None] + column[None, :]
    if WIDTH != PADDED:
        return tl.load(place, mask=(row >= 0)[:, None] & (column[None, :] < WIDTH), other=0.0)
    return tl.load(place)


@triton.jit
def mixed_rows(
    base,
    cache,
    pages,
    first,
    cached,
    length,
    stride,
    PART: tl.constexpr,
    S: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COUNT: tl.constexpr,
):
    """`rows`, the first `cached` of a sequence in pages."""
    token, column = first + tl.arange(0, COUNT), tl.arange(0, PADDED)
    in_cache = token < cached
    in_pages = _in_pages(cache, pages, token, in_cache, PART, S, WIDTH)[:, None] + column[None, :]
    inside = token[:, None] < length
    if WIDTH != PADDED:
        inside = inside & (column[None, :] < WIDTH)
    fresh = base + token[:, None] * stride + column[None, :]
    return tl.load(tl.where(in_cache[:, None], in_pages, fresh), mask=inside, other=0.0)


@triton.jit
def store(base, values, first, length, stride, WIDTH: tl.constexpr, PADDED: tl.constexpr, COUNT: tl.constexpr):
    token, column = first + tl.arange(0, COUNT), tl.arange(0, PADDED)
    inside = token[:, None] < length
    if WIDTH != PADDED:
        inside = inside & (column[None, :] < WIDTH)
    at = token[:, None] * stride + column[None, :]
    tl.store(base + at, values.to(base.dtype.element_ty), mask=inside)


@triton.jit
def sequence_of(offsets, key_offsets, contexts, targets, sequence, S: tl.constexpr):
    """Of a sequence: its first query's row and first key's row, its tokens, those before its first query, its
    contextual tokens, and where its targets begin."""
    begin = tl.load(offsets + sequence).to(tl.int64)
    queries = (tl.load(offsets + sequence + 1).to(tl.int64) - begin).to(tl.int32)
    key_begin, length = begin, queries
    if S.value.varlen:
        key_begin = tl.load(key_offsets + sequence).to(tl.int64)
        length = (tl.load(key_offsets + sequence + 1).to(tl.int64) - key_begin).to(tl.int32)
    context, history = length * 0, length
    if S.value.segments:
        context = tl.load(contexts + sequence).to(tl.int32)
        history = length - tl.load(targets + sequence).to(tl.int32)
    return begin, key_begin, length, length - queries, context, history


@triton.jit
def cached_of(page_offsets, last_page, sequence, S: tl.constexpr):
    """Where a sequence's pages begin, and how many tokens they hold."""
    first = tl.load(page_offsets + sequence).to(tl.int64)
    pages = (tl.load(page_offsets + sequence + 1).to(tl.int64) - first).to(tl.int32)
    last = tl.load(last_page + sequence).to(tl.int32)
    return first, tl.where(pages > 0, (pages - 1) * S.value.page_size + last, 0)


@triton.jit
def moments(high, low, token, BIAS: tl.constexpr):
    """The times of tokens, in two parts; without a relative bias anything."""
    if BIAS == 1:
        upper, lower = tl.load(high + token), tl.load(low + token)
    else:
        upper, lower = token, token
    return upper, lower


@triton.jit
def square_of(base, side, sequence, head, HEADS: tl.constexpr, ROWS: tl.constexpr):
    """Where the [side, side] of a sequence and a head begins, of a contiguous bias or mask [B or 1, N or 1, M, M]."""
    of_head = side.to(tl.int64) * side
    if ROWS:
        base += tl.cast(sequence, tl.int64) * HEADS * of_head
    if HEADS > 1:
        base += head * of_head
    return base


@triton.jit
def biased(
    score,
    query,
    key,
    query_high,
    query_low,
    key_high,
    key_low,
    history,
    position,
    time,
    cells,
    bias,
    bias_side,
    alpha,
    S: tl.constexpr,
):
    """alpha (score + bias), of tokens [Q, 1] and [1, K] or the other way."""
    BIAS: tl.constexpr = S.value.bias
    if BIAS == 1:
        bucket = time_bucket(query_high, query_low, key_high, key_low, cells)
        if S.value.segments:  # all targets stand where the next token would
            distance = tl.minimum(query, history) - tl.minimum(key, history)
        else:
            distance = query - key
        score += tl.load(position + tl.maximum(distance, 0)) + tl.load(time + bucket)
    elif BIAS == 2:
        score += tl.load(bias + query.to(tl.int64) * bias_side + key).to(tl.float32)
    if S.value.scaled:
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
