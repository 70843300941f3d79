"""The kernels of the backward pass for biases: of the relative one's two tables, and of a square one.

Each program has its own place for its sums, which are added in order: no atomic sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.backward import of_scores
from gr_ops.cuda.mask import tile_of, turns
from gr_ops.cuda.relative_bias import time_bucket
from gr_ops.cuda.tiles import row_of_batch, rows
from gr_ops.cuda.tuning import tuned

BLOCK = 64  # of the relative bias: 256 bytes a token for the sums of a block
SQUARE_TILE = 64


@triton.jit
def _of_all_heads(
    q, k, v, grad, query_tile, key_tile, query, key, bucket_QK, found, length, history, position, time, alpha,
    q_stride, k_stride, v_stride, grad_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, COUNTS: tl.constexpr,
    SCALED: tl.constexpr, FAST: tl.constexpr, DOT: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """[K, K]: the gradient of the scores of one tile, added over its heads."""
    if COUNTS:
        distance = tl.minimum(query[:, None], history) - tl.minimum(key[None, :], history)
    else:
        distance = query[:, None] - key[None, :]
    bias_KK = tl.load(position + tl.maximum(distance, 0)) + tl.load(time + bucket_QK)
    sum_KK = tl.zeros([K, K], tl.float32)
    nothing = query[:, None]
    for head in range(N):
        query_KA = rows(q + head * A, query_tile, length, q_stride, A, AP, K)
        key_KA = rows(k + head * A, key_tile, length, k_stride, A, AP, K)
        grad_KV = rows(grad + head * V, query_tile, length, grad_stride, V, VP, K)
        value_KV = rows(v + head * V, key_tile, length, v_stride, V, VP, K)
        score_KK = tl.dot(query_KA, tl.trans(key_KA), input_precision=DOT) + bias_KK
        of_weight_KK = tl.dot(grad_KV, tl.trans(value_KV), input_precision=DOT)
        _, of_score_KK = of_scores(
            score_KK, of_weight_KK, nothing, key[None, :], nothing, nothing, nothing, nothing, found, position, time,
            position, position, 0, position, 0, length, 0, history, alpha, 1, 0, 0, 0, 2, False, False, SCALED, FAST,
            True,
        )  # fmt: skip
        sum_KK += of_score_KK
    return sum_KK


@triton.jit
def _by_bucket(sum_T, of_score_KK, bucket_KK, found, T: tl.constexpr):
    """Timestamps are in order, so a tile has few buckets: a sum of the tile for each of them is little work."""
    buckets = tl.arange(0, T)
    least = tl.min(tl.min(tl.where(found, bucket_KK, T), 1), 0)
    most = tl.max(tl.max(tl.where(found, bucket_KK, -1), 1), 0)
    for bucket in range(least, most + 1):
        of_bucket = tl.sum(tl.sum(tl.where(bucket_KK == bucket, of_score_KK, 0.0), 1), 0)
        sum_T += tl.where(buckets == bucket, of_bucket, 0.0)
    return sum_T


@tuned([triton.Config({}, num_warps=8, num_stages=stages) for stages in (2, 1)], lambda stages: stages * 4 * BLOCK)
@triton.jit
def diagonals(
    q, k, v, grad, of_position, of_time, position, time, high, low, cells, offsets, contexts, targets, scale, alpha,
    q_stride, k_stride, v_stride, grad_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, COUNTS: tl.constexpr,
    SCALED: tl.constexpr, FAST: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Queries before the targets, and keys up to them: blocks along one diagonal of one sequence, in which distances
    are the same, so that their sums stay in registers."""
    window, windows = tl.program_id(0), tl.num_programs(0)
    begin, length, _, history = row_of_batch(offsets, contexts, targets, tl.program_id(1), COUNTS)
    high += begin
    low += begin
    row = tl.arange(0, K)
    sum_KK = tl.zeros([K, K], tl.float32)
    sum_T = tl.zeros([T], tl.float32)
    for start in range(window * K, history, K):
        first_key = start - window * K
        query = tl.minimum(start + row, length - 1)
        key = tl.minimum(first_key + row, length - 1)
        bucket_KK = time_bucket(
            tl.load(high + query)[:, None], tl.load(low + query)[:, None], tl.load(high + key)[None, :],
            tl.load(low + key)[None, :], cells,
        )  # fmt: skip
        found = (query[:, None] >= key[None, :]) & (start + row < history)[:, None]
        of_score_KK = _of_all_heads(
            q + begin * q_stride, k + begin * k_stride, v + begin * v_stride, grad + begin * grad_stride, start,
            first_key, query, key, bucket_KK, found, length, history, position, time, alpha, q_stride, k_stride,
            v_stride, grad_stride, N, A, V, AP, VP, COUNTS, SCALED, FAST, DOT, K,
        )  # fmt: skip
        sum_KK += of_score_KK
        sum_T = _by_bucket(sum_T, of_score_KK, bucket_KK, found, T)
    program = (tl.program_id(1) * windows + window).to(tl.int64)
    tl.store(of_position + program * K * K + row[:, None] * K + row[None, :], sum_KK * (scale * alpha))
    tl.store(of_time + program * T + tl.arange(0, T), sum_T * (scale * alpha))


@tuned([triton.Config({}, num_warps=8, num_stages=stages) for stages in (2, 1)], lambda stages: stages * 4 * BLOCK)
@triton.jit
def off_diagonals(
    q, k, v, grad, of_key, of_near, of_time, position, time, high, low, cells, offsets, contexts, targets, scale, alpha,
    group, q_stride, k_stride, v_stride, grad_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, SCALED: tl.constexpr,
    FAST: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """What `diagonals` leaves out: targets, and contextual queries with later keys. A program has one block of keys.

    A target's distance to a key is the key's to the first target, so there is one sum for each key; every other cell
    has distance 0.
    """
    block, blocks = tl.program_id(0), tl.num_programs(0)
    begin, length, context, history = row_of_batch(offsets, contexts, targets, tl.program_id(1), True)
    high += begin
    low += begin
    first_key = block * K
    place_K = first_key + tl.arange(0, K)
    key = tl.maximum(tl.minimum(place_K, length - 1), 0)
    sum_K = tl.zeros([K], tl.float32)
    near_K = tl.zeros([K], tl.float32)
    sum_T = tl.zeros([T], tl.float32)
    _, tiles = turns(0, context, history, length, True, K)
    for turn in range(tl.where(first_key < length, tiles, 0)):
        start, stop = tile_of(turn, 0, context, history, length, True, K)
        place = start + tl.arange(0, K)
        query = tl.minimum(place, length - 1)
        bucket_KK = time_bucket(
            tl.load(high + query)[:, None], tl.load(low + query)[:, None], tl.load(high + key)[None, :],
            tl.load(low + key)[None, :], cells,
        )  # fmt: skip
        before = (key < history)[None, :]
        of_target = (query >= history)[:, None]
        together = (query[:, None] - history) // group == (key[None, :] - history) // group
        own = of_target & (key >= history)[None, :] & together & (key[None, :] <= query[:, None])
        later = (query < context)[:, None] & before & (key[None, :] > query[:, None])
        found = ((of_target & before) | own | later) & (place < stop)[:, None] & (place_K < length)[None, :]
        of_score_KK = _of_all_heads(
            q + begin * q_stride, k + begin * k_stride, v + begin * v_stride, grad + begin * grad_stride, start,
            first_key, query, key, bucket_KK, found, length, history, position, time, alpha, q_stride, k_stride,
            v_stride, grad_stride, N, A, V, AP, VP, True, SCALED, FAST, DOT, K,
        )  # fmt: skip
        far = of_target & before
        sum_K += tl.sum(tl.where(far, of_score_KK, 0.0), 0)
        near_K += tl.sum(tl.where(far, 0.0, of_score_KK), 0)
        sum_T = _by_bucket(sum_T, of_score_KK, bucket_KK, found, T)
    program = (tl.program_id(1) * blocks + block).to(tl.int64)
    tl.store(of_key + program * K + tl.arange(0, K), sum_K * (scale * alpha))
    tl.store(of_near + program * K + tl.arange(0, K), near_K * (scale * alpha))
    tl.store(of_time + program * T + tl.arange(0, T), sum_T * (scale * alpha))


@tuned(
    [triton.Config({}, num_warps=4, num_stages=stages) for stages in (2, 1)], lambda stages: stages * 4 * SQUARE_TILE
)
@triton.jit
def squares(
    q, k, v, grad, out, square, mask, offsets, contexts, targets, sequences,
    scale, alpha, group, window, whole, square_row, square_head, side, mask_row, mask_head, mask_side,
    q_stride, k_stride, v_stride, grad_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, AP: tl.constexpr, VP: tl.constexpr, MASK: tl.constexpr,
    COUNTS: tl.constexpr, WINDOW: tl.constexpr, SCALED: tl.constexpr, FAST: tl.constexpr, DOT: tl.constexpr,
    EACH_ROW: tl.constexpr, EACH_HEAD: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """One tile of the gradient of a square bias, over the sequences and heads that share it."""
    query_tile, key_tile = tl.program_id(0) * K, tl.program_id(1) * K
    slice_ = tl.program_id(2)
    first_sequence, last_sequence, first_head, last_head = 0, sequences, 0, N
    if EACH_ROW and EACH_HEAD:
        first_sequence, first_head = slice_ // N, slice_ % N
    elif EACH_ROW:
        first_sequence = slice_
    elif EACH_HEAD:
        first_head = slice_
    if EACH_ROW:
        last_sequence = first_sequence + 1
    if EACH_HEAD:
        last_head = first_head + 1
    place = query_tile + tl.arange(0, K)
    at = key_tile + tl.arange(0, K)
    sum_KK = tl.zeros([K, K], tl.float32)
    for sequence in range(first_sequence, last_sequence):
        begin, length, context, history = row_of_batch(offsets, contexts, targets, sequence, COUNTS)
        query = tl.maximum(tl.minimum(place, length - 1), 0)
        key = tl.maximum(tl.minimum(at, length - 1), 0)
        inside = (place < length)[:, None] & (at < length)[None, :]
        here = tl.maximum(query_tile, key_tile) < length
        for head in range(first_head, tl.where(here, last_head, first_head)):
            query_KA = rows(q + begin * q_stride + head * A, query_tile, length, q_stride, A, AP, K)
            key_KA = rows(k + begin * k_stride + head * A, key_tile, length, k_stride, A, AP, K)
            grad_KV = rows(grad + begin * grad_stride + head * V, query_tile, length, grad_stride, V, VP, K)
            value_KV = rows(v + begin * v_stride + head * V, key_tile, length, v_stride, V, VP, K)
            score_KK = tl.dot(query_KA, tl.trans(key_KA), input_precision=DOT)
            of_weight_KK = tl.dot(grad_KV, tl.trans(value_KV), input_precision=DOT)
            row = tl.cast(sequence, tl.int64)
            _, of_score_KK = of_scores(
                score_KK, of_weight_KK, query[:, None], key[None, :], query[:, None], query[:, None], key[None, :],
                key[None, :], inside, q, q, q, square + row * square_row + head * square_head, side,
                mask + row * mask_row + head * mask_head, mask_side, length, context, history, alpha, group, window,
                whole, 2, MASK, COUNTS, WINDOW, SCALED, FAST, True,
            )  # fmt: skip
            sum_KK += of_score_KK
    out += tl.cast(slice_, tl.int64) * side * side
    inside = (place < side)[:, None] & (at < side)[None, :]
    values = (sum_KK * (scale * alpha)).to(out.dtype.element_ty)
    tl.store(out + place.to(tl.int64)[:, None] * side + at[None, :], values, mask=inside)
