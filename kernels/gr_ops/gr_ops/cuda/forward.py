"""The kernel of the forward pass: a program has one tile of queries of one head and goes through its keys."""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.mask import keys_seen, seen, tile_of, turns
from gr_ops.cuda.tiles import biased, moments, row_of_batch, rows, sigmoid, store, weighed
from gr_ops.cuda.tuning import tiles, tuned


@triton.jit
def _add_keys(
    sum_QV, query_QA, query, query_high, query_low, start, stop, k, v, position, time, high, low, cells, square, side,
    mask, mask_side, length, contexts, history, alpha, group, window, whole, k_stride, v_stride,
    A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, BIAS: tl.constexpr, MASK: tl.constexpr,
    COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr, FAST: tl.constexpr, DOT: tl.constexpr,
    K: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """sum_QV plus what the keys [start, start + K) below `stop` add."""
    at = start + tl.arange(0, K)
    key = tl.minimum(at, length - 1)
    score_QK = tl.dot(query_QA, tl.trans(rows(k, start, length, k_stride, A, AP, K)), input_precision=DOT)
    key_high, key_low = moments(high, low, key, BIAS)
    score_QK = biased(
        score_QK, query[:, None], key[None, :], query_high[:, None], query_low[:, None], key_high[None, :],
        key_low[None, :], history, position, time, cells, square, side, alpha, BIAS, COUNTS, SCALED,
    )  # fmt: skip
    weight_QK = score_QK * sigmoid(score_QK, FAST)
    if MASKED:
        found = seen(
            query[:, None], key[None, :], length, contexts, history, group, window, whole, MASK, COUNTS, WINDOW
        )
        if COUNTS:  # the other range has the rest of the tile
            found = found & (at < stop)[None, :]
        weight_QK = weighed(weight_QK, query[:, None], key[None, :], found, mask, mask_side, MASK)
    value_KV = rows(v, start, length, v_stride, V, VP, K)
    return tl.dot(weight_QK.to(value_KV.dtype), value_KV, sum_QV, input_precision=DOT)


@tuned(tiles((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2)), lambda stages, Q, K: Q + stages * 2 * K)
@triton.jit
def forward(
    q, k, v, out, position, time, high, low, cells, square, mask, offsets, contexts, targets,
    scale, alpha, group, window, whole, square_row, square_head, side, mask_row, mask_head, mask_side,
    q_stride, k_stride, v_stride, out_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr, FAST: tl.constexpr,
    DOT: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(1) // N, tl.program_id(1) % N
    begin, length, context, history = row_of_batch(offsets, contexts, targets, sequence, COUNTS)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q  # those with the most keys start first
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    out += begin * out_stride + head * V
    high += begin
    low += begin
    square += sequence.to(tl.int64) * square_row + head * square_head
    mask += sequence.to(tl.int64) * mask_row + head * mask_head
    last = tl.minimum(first + Q, length) - 1
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, BIAS)
    query_QA = rows(q, first, length, q_stride, A, AP, Q)
    sum_QV = tl.zeros([Q, VP], tl.float32)
    start, stop, start_2, stop_2 = keys_seen(
        first, last, length, context, history, group, window, whole, MASK, COUNTS, WINDOW
    )
    # Tiles of which every query sees every key need no mask.
    if MASK == 2:
        whole_until = stop
    elif MASK == 0 and not WINDOW:
        whole_until = tl.minimum(first, stop) // K * K
    else:
        whole_until = start
    for at in range(start, whole_until, K):
        sum_QV = _add_keys(
            sum_QV, query_QA, query, query_high, query_low, at, stop, k, v, position, time, high, low, cells, square,
            side, mask, mask_side, length, context, history, alpha, group, window, whole, k_stride, v_stride,
            A, V, AP, VP, BIAS, MASK, COUNTS, WINDOW, SCALED, FAST, DOT, K, False,
        )  # fmt: skip
    begin_turn, end_turn = turns(whole_until, stop, start_2, stop_2, COUNTS, K)
    for turn in range(begin_turn, end_turn, 1 if COUNTS else K):
        at, end = tile_of(turn, whole_until, stop, start_2, stop_2, COUNTS, K)
        sum_QV = _add_keys(
            sum_QV, query_QA, query, query_high, query_low, at, end, k, v, position, time, high, low, cells, square,
            side, mask, mask_side, length, context, history, alpha, group, window, whole, k_stride, v_stride,
            A, V, AP, VP, BIAS, MASK, COUNTS, WINDOW, SCALED, FAST, DOT, K, True,
        )  # fmt: skip
    store(out, sum_QV * scale, first, length, out_stride, V, VP, Q)
