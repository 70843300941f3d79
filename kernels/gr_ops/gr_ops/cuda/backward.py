"""The kernels of the backward pass: the gradients of keys and values, and those of queries.

Both calculate the scores of a tile again; `of_scores` is common to them and to those of the biases.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.mask import loop_bounds, tile_bounds, visible, visible_keys, visible_queries
from gr_ops.cuda.tiles import (
    add_product,
    apart,
    biased,
    moments,
    product,
    sequence_of,
    silu_and_slope,
    square_of,
    store,
    two_rows,
    weighed,
)
from gr_ops.cuda.tuning import tiles, tuned


@triton.jit
def of_scores(score, of_weight, query, key, found, mask, mask_side, S: tl.constexpr):
    """The weights of a tile, and the gradient of the scores, without alpha and the output's scale.

    Tokens are [Q, 1] and [1, K], or the other way, as the tile is; keys that are not `found` give 0.
    """
    silu, slope = silu_and_slope(score, S.value.fast)
    weight = weighed(silu, query, key, found, mask, mask_side, S.value.mask)
    return weight, weighed(of_weight * slope, query, key, found, mask, mask_side, S.value.mask)


@tuned(
    tiles(
        (64, 128, 8, 2),
        (32, 128, 8, 3),
        (64, 64, 4, 3),
        (64, 64, 8, 2),
        (32, 64, 8, 2),
        (64, 128, 8, 1),
        (32, 128, 8, 1),
        (32, 32, 4, 2),
    ),
    lambda stages, Q, K: 2 * K + stages * 2 * Q,
)
@triton.jit
def keys_and_values(
    q,
    k,
    v,
    grad,
    dk,
    dv,
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
    grad_stride,
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
    first = tl.program_id(0) * K
    if first >= length:
        return
    q += (begin - shift) * q_stride + head * A
    k += key_begin * k_stride + head * A
    v += key_begin * v_stride + head * V
    grad += (begin - shift) * grad_stride + head * V
    high += begin
    low += begin
    bias = square_of(bias, bias_side, sequence, head, S.value.bias_heads, S.value.bias_rows)
    mask = square_of(mask, mask_side, sequence, head, S.value.mask_heads, S.value.mask_rows)
    last = tl.minimum(first + K, length) - 1
    key = tl.minimum(first + tl.arange(0, K), length - 1)
    key_high, key_low = moments(high, low, key, S.value.bias)
    key_KA, key_low_KA = two_rows(k, first, length, k_stride, S, A, AP, K)
    value_KV, value_low_KV = two_rows(v, first, length, v_stride, S, V, VP, K)
    of_key_KA = tl.zeros([K, AP], tl.float32)
    of_value_KV = tl.zeros([K, VP], tl.float32)
    start, stop, start_2, stop_2 = visible_queries(
        first, last, length, context, history, group, window, min_full, MASK, SEGMENTS, WINDOW, Q
    )
    if S.value.varlen:  # without segments the first range is empty
        start_2 = tl.maximum(start_2, shift)
    begin_step, end_step = loop_bounds(start, stop, start_2, stop_2, SEGMENTS, Q)
    for step in range(begin_step, end_step, 1 if SEGMENTS else Q):
        at, _ = tile_bounds(step, start, stop, start_2, stop_2, SEGMENTS, Q)
        query = tl.minimum(at + tl.arange(0, Q), length - 1)
        query_high, query_low = moments(high, low, query, S.value.bias)
        query_QA, query_low_QA = two_rows(q, at, length, q_stride, S, A, AP, Q)
        grad_QV, grad_low_QV = two_rows(grad, at, length, grad_stride, S, V, VP, Q)
        score_KQ = product(key_KA, key_low_KA, tl.trans(query_QA), tl.trans(query_low_QA), S)
        of_weight_KQ = product(value_KV, value_low_KV, tl.trans(grad_QV), tl.trans(grad_low_QV), S)
        score_KQ = biased(
            score_KQ,
            query[None, :],
            key[:, None],
            query_high[None, :],
            query_low[None, :],
            key_high[:, None],
            key_low[:, None],
            history,
            position,
            time,
            cells,
            bias,
            bias_side,
            alpha,
            S,
        )
        found = visible(
            query[None, :], key[:, None], length, context, history, group, window, min_full, MASK, SEGMENTS, WINDOW
        )
        weight_KQ, of_score_KQ = of_scores(
            score_KQ, of_weight_KQ, query[None, :], key[:, None], found, mask, mask_side, S
        )
        weight_KQ, weight_low_KQ = apart(weight_KQ, grad_QV, S)
        of_value_KV = add_product(of_value_KV, weight_KQ, weight_low_KQ, grad_QV, grad_low_QV, S)
        of_score_KQ, of_score_low_KQ = apart(of_score_KQ, query_QA, S)
        of_key_KA = add_product(of_key_KA, of_score_KQ, of_score_low_KQ, query_QA, query_low_QA, S)
    of_key_KA *= scale * alpha
    dk += key_begin * (N * A) + head * A
    dv += key_begin * (N * V) + head * V
    store(dk, of_key_KA, first, length, N * A, A, AP, K)
    store(dv, of_value_KV * scale, first, length, N * V, V, VP, K)


@tuned(
    tiles((128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2), (128, 64, 8, 1), (128, 32, 8, 1), (32, 32, 4, 2)),
    lambda stages, Q, K: 2 * Q + stages * 2 * K,
)
@triton.jit
def queries(
    q,
    k,
    v,
    grad,
    dq,
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
    grad_stride,
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
    first = shift + (tl.num_programs(0) - 1 - tl.program_id(0)) * Q
    if first >= length:
        return
    q += (begin - shift) * q_stride + head * A
    k += key_begin * k_stride + head * A
    v += key_begin * v_stride + head * V
    grad += (begin - shift) * grad_stride + head * V
    high += begin
    low += begin
    bias = square_of(bias, bias_side, sequence, head, S.value.bias_heads, S.value.bias_rows)
    mask = square_of(mask, mask_side, sequence, head, S.value.mask_heads, S.value.mask_rows)
    last = tl.minimum(first + Q, length) - 1
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, S.value.bias)
    query_QA, query_low_QA = two_rows(q, first, length, q_stride, S, A, AP, Q)
    grad_QV, grad_low_QV = two_rows(grad, first, length, grad_stride, S, V, VP, Q)
    of_query_QA = tl.zeros([Q, AP], tl.float32)
    start, stop, start_2, stop_2 = visible_keys(
        first, last, length, context, history, group, window, min_full, MASK, SEGMENTS, WINDOW
    )
    begin_step, end_step = loop_bounds(start, stop, start_2, stop_2, SEGMENTS, K)
    for step in range(begin_step, end_step, 1 if SEGMENTS else K):
        at, end = tile_bounds(step, start, stop, start_2, stop_2, SEGMENTS, K)
        place = at + tl.arange(0, K)
        key = tl.minimum(place, length - 1)
        key_high, key_low = moments(high, low, key, S.value.bias)
        key_KA, key_low_KA = two_rows(k, at, length, k_stride, S, A, AP, K)
        value_KV, value_low_KV = two_rows(v, at, length, v_stride, S, V, VP, K)
        score_QK = product(query_QA, query_low_QA, tl.trans(key_KA), tl.trans(key_low_KA), S)
        of_weight_QK = product(grad_QV, grad_low_QV, tl.trans(value_KV), tl.trans(value_low_KV), S)
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
        found = visible(
            query[:, None], key[None, :], length, context, history, group, window, min_full, MASK, SEGMENTS, WINDOW
        )
        if SEGMENTS:  # the other range has the rest of the tile
            found = found & (place < end)[None, :]
        _, of_score_QK = of_scores(score_QK, of_weight_QK, query[:, None], key[None, :], found, mask, mask_side, S)
        of_score_QK, of_score_low_QK = apart(of_score_QK, key_KA, S)
        of_query_QA = add_product(of_query_QA, of_score_QK, of_score_low_QK, key_KA, key_low_KA, S)
    of_query_QA *= scale * alpha
    dq += (begin - shift) * (N * A) + head * A
    store(dq, of_query_QA, first, length, N * A, A, AP, Q)
