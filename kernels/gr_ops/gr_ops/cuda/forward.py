"""The kernel of the forward pass: a program has one tile of queries of one head and goes through its keys."""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.mask import loop_bounds, tile_bounds, visible, visible_keys
from gr_ops.cuda.tiles import (
    add_product,
    apart,
    biased,
    cached_of,
    cached_rows,
    mixed_rows,
    moments,
    product,
    sequence_of,
    sigmoid,
    square_of,
    store,
    two_rows,
    weighed,
)
from gr_ops.cuda.tuning import tiles, tuned


@tuned(tiles((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2)), lambda stages, Q, K: Q + stages * 2 * K)
@triton.jit
def forward(
    q,
    k,
    v,
    out,
    position,
    time,
    high,
    low,
    cells,
    bias,
    mask,
    offsets,
    key_offsets,
    contexts,
    targets,
    cache,
    page_offsets,
    page_ids,
    last_page,
    scale,
    alpha,
    group,
    window,
    min_full,
    bias_side,
    mask_side,
    q_stride,
    k_stride,
    v_stride,
    S: tl.constexpr,
    Q: tl.constexpr,
    K: tl.constexpr,
):
    N: tl.constexpr = S.value.heads
    A: tl.constexpr = S.value.dim
    V: tl.constexpr = S.value.value_dim
    AP: tl.constexpr = S.value.padded
    VP: tl.constexpr = S.value.padded_value
    MASK: tl.constexpr = S.value.mask
    SEGMENTS: tl.constexpr = S.value.segments
    WINDOW: tl.constexpr = S.value.window
    sequence, head = tl.program_id(1) // N, tl.program_id(1) % N
    begin, key_begin, length, shift, context, history = sequence_of(
        offsets, key_offsets, contexts, targets, sequence, S
    )
    cached = 0
    if S.value.page_size:
        page_begin, cached = cached_of(page_offsets, last_page, sequence, S)
        length += cached
        shift += cached
        history += cached
        page_ids += page_begin
        cache += head * A
    first = shift + (tl.num_programs(0) - 1 - tl.program_id(0)) * Q  # those with the most keys start first
    if first >= length:
        return
    q += (begin - shift) * q_stride + head * A
    k += (key_begin - cached) * k_stride + head * A
    v += (key_begin - cached) * v_stride + head * V
    out += (begin - shift) * (N * V) + head * V
    high += begin
    low += begin
    bias = square_of(bias, bias_side, sequence, head, S.value.bias_heads, S.value.bias_rows)
    mask = square_of(mask, mask_side, sequence, head, S.value.mask_heads, S.value.mask_rows)
    last = tl.minimum(first + Q, length) - 1
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, S.value.bias)
    query_QA, query_low_QA = two_rows(q, first, length, q_stride, S, A, AP, Q)
    sum_QV = tl.zeros([Q, VP], tl.float32)
    start, stop, start_2, stop_2 = visible_keys(
        first, last, length, context, history, group, window, min_full, MASK, SEGMENTS, WINDOW
    )
    # Tiles of which every query sees every key need no mask.
    if MASK == 2:
        unmasked = stop
    elif MASK == 0 and not WINDOW:
        unmasked = tl.minimum(first, stop) // K * K
    else:
        unmasked = start
    whole_pages = start
    if S.value.page_size:
        whole_pages = tl.maximum(start, tl.minimum(start + (cached - start) // K * K, unmasked))
    # Tiles of whole pages, other ones without a mask, those with one.
    FIRST: tl.constexpr = 0 if S.value.page_size else 1
    for PART in tl.static_range(FIRST, 3):
        if PART == 0:
            begin_step, end_step = start, whole_pages
        elif PART == 1:
            begin_step, end_step = whole_pages, unmasked
        else:
            begin_step, end_step = loop_bounds(unmasked, stop, start_2, stop_2, SEGMENTS, K)
        for step in range(begin_step, end_step, 1 if SEGMENTS and PART == 2 else K):
            if PART == 2:
                at, end = tile_bounds(step, unmasked, stop, start_2, stop_2, SEGMENTS, K)
            else:
                at, end = step, stop
            place = at + tl.arange(0, K)
            key = tl.minimum(place, length - 1)
            if PART == 0:
                key_KA = cached_rows(cache, page_ids, at, 0, S, A, AP, K)
                key_low_KA = key_KA
            elif S.value.page_size:
                key_KA = mixed_rows(k, cache, page_ids, at, cached, length, k_stride, 0, S, A, AP, K)
                key_low_KA = key_KA
            else:
                key_KA, key_low_KA = two_rows(k, at, length, k_stride, S, A, AP, K)
            score_QK = product(query_QA, query_low_QA, tl.trans(key_KA), tl.trans(key_low_KA), S)
            key_high, key_low = moments(high, low, key, S.value.bias)
            score_QK = biased(
                score_QK,
                query[:, None],
                key[None, :],
                query_high[:, None],
                query_low[:, None],
                key_high[None, :],
                key_low[None, :],
                history,
                position,
                time,
                cells,
                bias,
                bias_side,
                alpha,
                S,
            )
            weight_QK = score_QK * sigmoid(score_QK, S.value.fast)
            if PART == 2:
                found = visible(
                    query[:, None],
                    key[None, :],
                    length,
                    context,
                    history,
                    group,
                    window,
                    min_full,
                    MASK,
                    SEGMENTS,
                    WINDOW,
                )
                if SEGMENTS:  # the other range has the rest of the tile
                    found = found & (place < end)[None, :]
                weight_QK = weighed(weight_QK, query[:, None], key[None, :], found, mask, mask_side, MASK)
            if PART == 0:
                value_KV = cached_rows(cache, page_ids, at, 1, S, V, VP, K)
                value_low_KV = value_KV
            elif S.value.page_size:
                value_KV = mixed_rows(v, cache, page_ids, at, cached, length, v_stride, 1, S, V, VP, K)
                value_low_KV = value_KV
            else:
                value_KV, value_low_KV = two_rows(v, at, length, v_stride, S, V, VP, K)
            weight_QK, weight_low_QK = apart(weight_QK, value_KV, S)
            sum_QV = add_product(sum_QV, weight_QK, weight_low_QK, value_KV, value_low_KV, S)
    store(out, sum_QV * scale, first, length, N * V, V, VP, Q)
