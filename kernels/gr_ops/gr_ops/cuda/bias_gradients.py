"""The kernels of the backward pass for biases: of the relative one's two tables, and of a dense one.

Each program has its own place for its sums, which are added in order: no atomic sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gr_ops.cuda.backward import of_scores
from gr_ops.cuda.mask import loop_bounds, tile_bounds, visible
from gr_ops.cuda.relative_bias import time_bucket
from gr_ops.cuda.tiles import query_rows, rows, sequence_of, silu_and_slope, square_of
from gr_ops.cuda.tuning import tuned

BLOCK = 64  # of the relative bias: 256 bytes a token for the sums of a block
DENSE_TILE = 64


@triton.jit
def _of_all_heads(
    q,
    k,
    v,
    grad,
    query_tile,
    key_tile,
    query,
    key,
    bucket_KK,
    found,
    length,
    history,
    position,
    time,
    alpha,
    q_stride,
    k_stride,
    v_stride,
    grad_stride,
    S: tl.constexpr,
    K: tl.constexpr,
):
    """[K, K]: the gradient of the scores of one tile, added over its heads."""
    A: tl.constexpr = S.value.dim
    V: tl.constexpr = S.value.value_dim
    if S.value.segments:
        distance = tl.minimum(query[:, None], history) - tl.minimum(key[None, :], history)
    else:
        distance = query[:, None] - key[None, :]
    bias_KK = tl.load(position + tl.maximum(distance, 0)) + tl.load(time + bucket_KK)
    sum_KK = tl.zeros([K, K], tl.float32)
    for head in range(S.value.heads):
        query_KA = rows(q + head * A, query_tile, length, q_stride, A, S.value.padded, K)
        key_KA = rows(k + head * A, key_tile, length, k_stride, A, S.value.padded, K)
        grad_KV = rows(grad + head * V, query_tile, length, grad_stride, V, S.value.padded_value, K)
        value_KV = rows(v + head * V, key_tile, length, v_stride, V, S.value.padded_value, K)
        score_KK = tl.dot(query_KA, tl.trans(key_KA), input_precision=S.value.precision) + bias_KK
        of_weight_KK = tl.dot(grad_KV, tl.trans(value_KV), input_precision=S.value.precision)
        if S.value.scaled:
            score_KK *= alpha
        _, slope = silu_and_slope(score_KK, S.value.fast)
        sum_KK += tl.where(found, of_weight_KK * slope, 0.0)
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
    q,
    k,
    v,
    grad,
    of_position,
    of_time,
    position,
    time,
    high,
    low,
    cells,
    offsets,
    contexts,
    targets,
    scale,
    alpha,
    q_stride,
    k_stride,
    v_stride,
    grad_stride,
    S: tl.constexpr,
    T: tl.constexpr,
    K: tl.constexpr,
):
    """Queries before the targets, and keys up to them: blocks along one diagonal of one sequence, in which distances
    are the same, so that their sums stay in registers."""
    window, windows = tl.program_id(0), tl.num_programs(0)
    begin, _, length, _, _, history = sequence_of(offsets, offsets, contexts, targets, tl.program_id(1), S)
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
            tl.load(high + query)[:, None],
            tl.load(low + query)[:, None],
            tl.load(high + key)[None, :],
            tl.load(low + key)[None, :],
            cells,
        )
        found = (query[:, None] >= key[None, :]) & (start + row < history)[:, None]
        of_score_KK = _of_all_heads(
            q + begin * q_stride,
            k + begin * k_stride,
            v + begin * v_stride,
            grad + begin * grad_stride,
            start,
            first_key,
            query,
            key,
            bucket_KK,
            found,
            length,
            history,
            position,
            time,
            alpha,
            q_stride,
            k_stride,
            v_stride,
            grad_stride,
            S,
            K,
        )
        sum_KK += of_score_KK
        sum_T = _by_bucket(sum_T, of_score_KK, bucket_KK, found, T)
    program = (tl.program_id(1) * windows + window).to(tl.int64)
    tl.store(of_position + program * K * K + row[:, None] * K + row[None, :], sum_KK * (scale * alpha))
    tl.store(of_time + program * T + tl.arange(0, T), sum_T * (scale * alpha))


@tuned([triton.Config({}, num_warps=8, num_stages=stages) for stages in (2, 1)], lambda stages: stages * 4 * BLOCK)
@triton.jit
def off_diagonals(
    q,
    k,
    v,
    grad,
    of_key,
    of_near,
    of_time,
    position,
    time,
    high,
    low,
    cells,
    offsets,
    contexts,
    targets,
    scale,
    alpha,
    group,
    q_stride,
    k_stride,
    v_stride,
    grad_stride,
    S: tl.constexpr,
    T: tl.constexpr,
    K: tl.constexpr,
):
    """What `diagonals` leaves out: targets, and contextual queries with later keys. A program has one block of keys.

    A target's distance to a key is the key's to the first target, so there is one sum for each key; every other cell
    has distance 0.
    """
    block, blocks = tl.program_id(0), tl.num_programs(0)
    begin, _, length, _, context, history = sequence_of(offsets, offsets, contexts, targets, tl.program_id(1), S)
    high += begin
    low += begin
    first_key = block * K
    place_K = first_key + tl.arange(0, K)
    key = tl.maximum(tl.minimum(place_K, length - 1), 0)
    sum_K = tl.zeros([K], tl.float32)
    near_K = tl.zeros([K], tl.float32)
    sum_T = tl.zeros([T], tl.float32)
    _, tiles = loop_bounds(0, context, history, length, True, K)
    for step in range(tl.where(first_key < length, tiles, 0)):
        start, stop = tile_bounds(step, 0, context, history, length, True, K)
        place = start + tl.arange(0, K)
        query = tl.minimum(place, length - 1)
        bucket_KK = time_bucket(
            tl.load(high + query)[:, None],
            tl.load(low + query)[:, None],
            tl.load(high + key)[None, :],
            tl.load(low + key)[None, :],
            cells,
        )
        before = (key < history)[None, :]
        of_target = (query >= history)[:, None]
        same_group = (query[:, None] - history) // group == (key[None, :] - history) // group
        own = of_target & (key >= history)[None, :] & same_group & (key[None, :] <= query[:, None])
        later = (query < context)[:, None] & before & (key[None, :] > query[:, None])
        found = ((of_target & before) | own | later) & (place < stop)[:, None] & (place_K < length)[None, :]
        of_score_KK = _of_all_heads(
            q + begin * q_stride,
            k + begin * k_stride,
            v + begin * v_stride,
            grad + begin * grad_stride,
            start,
            first_key,
            query,
            key,
            bucket_KK,
            found,
            length,
            history,
            position,
            time,
            alpha,
            q_stride,
            k_stride,
            v_stride,
            grad_stride,
            S,
            K,
        )
        far = of_target & before
        sum_K += tl.sum(tl.where(far, of_score_KK, 0.0), 0)
        near_K += tl.sum(tl.where(far, 0.0, of_score_KK), 0)
        sum_T = _by_bucket(sum_T, of_score_KK, bucket_KK, found, T)
    program = (tl.program_id(1) * blocks + block).to(tl.int64)
    tl.store(of_key + program * K + tl.arange(0, K), sum_K * (scale * alpha))
    tl.store(of_near + program * K + tl.arange(0, K), near_K * (scale * alpha))
    tl.store(of_time + program * T + tl.arange(0, T), sum_T * (scale * alpha))


@tuned([triton.Config({}, num_warps=4, num_stages=stages) for stages in (2, 1)], lambda stages: stages * 4 * DENSE_TILE)
@triton.jit
def dense(
    q,
    k,
    v,
    grad,
    out,
    bias,
    mask,
    offsets,
    key_offsets,
    contexts,
    targets,
    sequences,
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
    K: tl.constexpr,
):
    """One tile of the gradient of a dense bias, over the sequences and heads that share it."""
    A: tl.constexpr = S.value.dim
    V: tl.constexpr = S.value.value_dim
    MASK: tl.constexpr = S.value.mask
    SEGMENTS: tl.constexpr = S.value.segments
    HEADS: tl.constexpr = S.value.bias_heads
    EACH_ROW: tl.constexpr = S.value.bias_rows
    EACH_HEAD: tl.constexpr = HEADS > 1
    query_tile, key_tile = tl.program_id(0) * K, tl.program_id(1) * K
    square = tl.program_id(2)
    first_sequence, last_sequence, first_head, last_head = 0, sequences, 0, S.value.heads
    if EACH_ROW and EACH_HEAD:
        first_sequence, first_head = square // S.value.heads, square % S.value.heads
    elif EACH_ROW:
        first_sequence = square
    elif EACH_HEAD:
        first_head = square
    if EACH_ROW:
        last_sequence = first_sequence + 1
    if EACH_HEAD:
        last_head = first_head + 1
    query_place = query_tile + tl.arange(0, K)
    key_place = key_tile + tl.arange(0, K)
    sum_KK = tl.zeros([K, K], tl.float32)
    for sequence in range(first_sequence, last_sequence):
        begin, key_begin, length, shift, context, history = sequence_of(
            offsets, key_offsets, contexts, targets, sequence, S
        )
        query = tl.maximum(tl.minimum(query_place, length - 1), 0)
        key = tl.maximum(tl.minimum(key_place, length - 1), 0)
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
            S.value.window,
        )
        found = found & (query_place < length)[:, None] & (key_place < length)[None, :]
        here = (tl.maximum(query_tile, key_tile) < length) & (query_tile + K > shift)
        for head in range(first_head, tl.where(here, last_head, first_head)):
            query_base = q + (begin - shift) * q_stride + head * A
            grad_base = grad + (begin - shift) * grad_stride + head * V
            query_KA = query_rows(query_base, query_tile, shift, length, q_stride, S, A, S.value.padded, K)
            key_KA = rows(k + key_begin * k_stride + head * A, key_tile, length, k_stride, A, S.value.padded, K)
            grad_KV = query_rows(grad_base, query_tile, shift, length, grad_stride, S, V, S.value.padded_value, K)
            value_KV = rows(v + key_begin * v_stride + head * V, key_tile, length, v_stride, V, S.value.padded_value, K)
            score_KK = tl.dot(query_KA, tl.trans(key_KA), input_precision=S.value.precision)
            of_weight_KK = tl.dot(grad_KV, tl.trans(value_KV), input_precision=S.value.precision)
            bias_of = square_of(bias, bias_side, sequence, head, HEADS, EACH_ROW)
            mask_of = square_of(mask, mask_side, sequence, head, S.value.mask_heads, S.value.mask_rows)
            score_KK += tl.load(bias_of + query.to(tl.int64)[:, None] * bias_side + key[None, :]).to(tl.float32)
            if S.value.scaled:
                score_KK *= alpha
            _, of_score_KK = of_scores(
                score_KK, of_weight_KK, query[:, None], key[None, :], found, mask_of, mask_side, S
            )
            sum_KK += of_score_KK
    out += tl.cast(square, tl.int64) * bias_side * bias_side
    inside = (query_place < bias_side)[:, None] & (key_place < bias_side)[None, :]
    values = (sum_KK * (scale * alpha)).to(out.dtype.element_ty)
    tl.store(out + query_place.to(tl.int64)[:, None] * bias_side + key_place[None, :], values, mask=inside)
