"""The kernels of the backward pass: the gradients of keys and values, and those of queries.

Both calculate the scores of a tile again; `of_scores` is common to them and to those of the biases.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.mask import keys_seen, queries_that_see, seen, tile_of, turns
from gr_ops.cuda.tiles import biased, moments, row_of_batch, rows, silu_and_slope, store, weighed
from gr_ops.cuda.tuning import tiles, tuned


@triton.jit
def of_scores(
    score, of_weight, query, key, query_high, query_low, key_high, key_low, inside, position, time, cells, square, side,
    mask, mask_side, length, contexts, history, alpha, group, window, whole,
    BIAS: tl.constexpr, MASK: tl.constexpr, COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr,
    FAST: tl.constexpr, LIMITED: tl.constexpr,
):  # fmt: skip
    """The weights of a tile, and the gradient of what SiLU is taken of, without alpha and the output's scale.

    Tokens are [Q, 1] and [1, K], or the other way, as the tile is; LIMITED: cells that are not `inside` give 0.
    """
    score = biased(
        score, query, key, query_high, query_low, key_high, key_low, history, position, time, cells, square, side,
        alpha, BIAS, COUNTS, SCALED,
    )  # fmt: skip
    silu, slope = silu_and_slope(score, FAST)
    found = seen(query, key, length, contexts, history, group, window, whole, MASK, COUNTS, WINDOW)
    if LIMITED:
        found = found & inside
    weight = weighed(silu, query, key, found, mask, mask_side, MASK)
    return weight, weighed(of_weight * slope, query, key, found, mask, mask_side, MASK)


@tuned(
    tiles((64, 128, 8, 2), (32, 128, 8, 3), (64, 64, 4, 3), (64, 64, 8, 2), (32, 64, 8, 2), (32, 32, 4, 2)),
    lambda stages, Q, K: 2 * K + stages * 2 * Q,
)
@triton.jit
def keys_and_values(
    q, k, v, grad, dk, dv, position, time, high, low, cells, square, mask, offsets, contexts, targets,
    scale, alpha, group, window, whole, square_row, square_head, side, mask_row, mask_head, mask_side,
    q_stride, k_stride, v_stride, grad_stride, dk_stride, dv_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr, FAST: tl.constexpr,
    DOT: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(1) // N, tl.program_id(1) % N
    begin, length, context, history = row_of_batch(offsets, contexts, targets, sequence, COUNTS)
    first = tl.program_id(0) * K
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    high += begin
    low += begin
    square += sequence.to(tl.int64) * square_row + head * square_head
    mask += sequence.to(tl.int64) * mask_row + head * mask_head
    last = tl.minimum(first + K, length) - 1
    key = tl.minimum(first + tl.arange(0, K), length - 1)
    key_high, key_low = moments(high, low, key, BIAS)
    key_KA = rows(k, first, length, k_stride, A, AP, K)
    value_KV = rows(v, first, length, v_stride, V, VP, K)
    of_key_KA = tl.zeros([K, AP], tl.float32)
    of_value_KV = tl.zeros([K, VP], tl.float32)
    start, stop, start_2, stop_2 = queries_that_see(
        first, last, length, context, history, group, window, whole, MASK, COUNTS, WINDOW, Q
    )
    begin_turn, end_turn = turns(start, stop, start_2, stop_2, COUNTS, Q)
    for turn in range(begin_turn, end_turn, 1 if COUNTS else Q):
        at, _ = tile_of(turn, start, stop, start_2, stop_2, COUNTS, Q)
        query = tl.minimum(at + tl.arange(0, Q), length - 1)
        query_high, query_low = moments(high, low, query, BIAS)
        query_QA = rows(q, at, length, q_stride, A, AP, Q)
        grad_QV = rows(grad, at, length, grad_stride, V, VP, Q)
        score_KQ = tl.dot(key_KA, tl.trans(query_QA), input_precision=DOT)
        of_weight_KQ = tl.dot(value_KV, tl.trans(grad_QV), input_precision=DOT)
        weight_KQ, of_score_KQ = of_scores(
            score_KQ, of_weight_KQ, query[None, :], key[:, None], query_high[None, :], query_low[None, :],
            key_high[:, None], key_low[:, None], True, position, time, cells, square, side, mask, mask_side, length,
            context, history, alpha, group, window, whole, BIAS, MASK, COUNTS, WINDOW, SCALED, FAST, False,
        )  # fmt: skip
        of_value_KV = tl.dot(weight_KQ.to(grad_QV.dtype), grad_QV, of_value_KV, input_precision=DOT)
        of_key_KA = tl.dot(of_score_KQ.to(query_QA.dtype), query_QA, of_key_KA, input_precision=DOT)
    of_key_KA *= scale * alpha
    store(dk + begin * dk_stride + head * A, of_key_KA, first, length, dk_stride, A, AP, K)
    store(dv + begin * dv_stride + head * V, of_value_KV * scale, first, length, dv_stride, V, VP, K)


@tuned(
    tiles((128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2), (32, 32, 4, 2)), lambda stages, Q, K: 2 * Q + stages * 2 * K
)
@triton.jit
def queries(
    q, k, v, grad, dq, position, time, high, low, cells, square, mask, offsets, contexts, targets,
    scale, alpha, group, window, whole, square_row, square_head, side, mask_row, mask_head, mask_side,
    q_stride, k_stride, v_stride, grad_stride, dq_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr, FAST: tl.constexpr,
    DOT: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(1) // N, tl.program_id(1) % N
    begin, length, context, history = row_of_batch(offsets, contexts, targets, sequence, COUNTS)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    high += begin
    low += begin
    square += sequence.to(tl.int64) * square_row + head * square_head
    mask += sequence.to(tl.int64) * mask_row + head * mask_head
    last = tl.minimum(first + Q, length) - 1
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, BIAS)
    query_QA = rows(q, first, length, q_stride, A, AP, Q)
    grad_QV = rows(grad, first, length, grad_stride, V, VP, Q)
    of_query_QA = tl.zeros([Q, AP], tl.float32)
    start, stop, start_2, stop_2 = keys_seen(
        first, last, length, context, history, group, window, whole, MASK, COUNTS, WINDOW
    )
    begin_turn, end_turn = turns(start, stop, start_2, stop_2, COUNTS, K)
    for turn in range(begin_turn, end_turn, 1 if COUNTS else K):
        at, end = tile_of(turn, start, stop, start_2, stop_2, COUNTS, K)
        place = at + tl.arange(0, K)
        key = tl.minimum(place, length - 1)
        key_high, key_low = moments(high, low, key, BIAS)
        key_KA = rows(k, at, length, k_stride, A, AP, K)
        value_KV = rows(v, at, length, v_stride, V, VP, K)
        score_QK = tl.dot(query_QA, tl.trans(key_KA), input_precision=DOT)
        of_weight_QK = tl.dot(grad_QV, tl.trans(value_KV), input_precision=DOT)
        _, of_score_QK = of_scores(
            score_QK, of_weight_QK, query[:, None], key[None, :], query_high[:, None], query_low[:, None],
            key_high[None, :], key_low[None, :], (place < end)[None, :], position, time, cells, square, side, mask,
            mask_side, length, context, history, alpha, group, window, whole, BIAS, MASK, COUNTS, WINDOW, SCALED, FAST,
            COUNTS,
        )  # fmt: skip
        of_query_QA = tl.dot(of_score_QK.to(key_KA.dtype), key_KA, of_query_QA, input_precision=DOT)
    of_query_QA *= scale * alpha
    store(dq + begin * dq_stride + head * A, of_query_QA, first, length, dq_stride, A, AP, Q)
