"""The kernels of triton_attention: forward, and the gradients of keys and values, of queries, and of the bias.

Rows behind a sequence's last token are read as 0, so that they add nothing; their number is taken for the last one's.
Shape suffixes as in triton_attention.py. `position` to `cells` are read with BIAS alone, as in triton_bias.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner

from gr_model.triton_bias import bias, moments, time_bucket

BIAS_BLOCK = 64  # of the bias's gradient: 256 bytes a token for the sums of a block
SHAPE = ["A", "V", "BIAS"]
SHARED_MEMORY = 227 * 1024  # of a Hopper GPU, for one program; others refuse by themselves what is too large


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    if FAST:  # one instruction; its error of 2^-11 is below that of the bfloat16 that the result becomes
        half = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x * 0.5], dtype=tl.float32, is_pure=True, pack=1
        )
        return half * 0.5 + 0.5
    return tl.sigmoid(x)


@triton.jit
def _rows(base, first, length, stride, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    """[COUNT, WIDTH] from token `first` on; 0 behind the last."""
    token = first + tl.arange(0, COUNT)
    at = token[:, None] * stride + tl.arange(0, WIDTH)[None, :]
    return tl.load(base + at, mask=token[:, None] < length, other=0.0)


@triton.jit
def _store(base, values, first, length, stride, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    token = first + tl.arange(0, COUNT)
    at = token[:, None] * stride + tl.arange(0, WIDTH)[None, :]
    tl.store(base + at, values.to(base.dtype.element_ty), mask=token[:, None] < length)


@triton.jit
def _place(offsets, N: tl.constexpr):
    """The program's head, and where its sequence begins and how long it is."""
    sequence = tl.program_id(1) // N
    begin = tl.load(offsets + sequence)
    return tl.program_id(1) % N, begin, (tl.load(offsets + sequence + 1) - begin).to(tl.int32)


@triton.jit
def _weights_and_slope(score, seen, FAST: tl.constexpr):
    """SiLU and its derivative; the weights are 0 where the query does not see the key."""
    sigmoid = _sigmoid(score, FAST)
    weights = tl.where(seen, score * sigmoid, 0.0)
    return weights, sigmoid + weights * (1 - sigmoid)


def _fastest(key: list[str], configs: list[triton.Config], held: Callable[..., int]) -> Callable[[Any], Autotuner]:
    """For each value of `key`, of those whose rows fit; `held` counts them. triton.autotune would look for a GPU
    already when this module is imported."""

    def fitting(choices: list[triton.Config], _: Any, **named: Any) -> list[triton.Config]:
        width = named["A"] + named["V"]  # bytes of a row in half precision, of queries and values in the mean
        small = [c for c in choices if width * held(c.num_stages, **c.kwargs) <= SHARED_MEMORY]
        return small or choices[-1:]

    prune = {"early_config_prune": fitting}
    return lambda kernel: Autotuner(
        kernel, kernel.arg_names, configs, key, None, None, prune_configs_by=prune, do_bench=_timed
    )


def _blocks(*shapes: tuple[int, int, int, int]) -> list[triton.Config]:
    return [triton.Config({"Q": q, "K": k}, num_warps=warps, num_stages=stages) for q, k, warps, stages in shapes]


def _timed(call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
    return triton.testing.do_bench(call, quantiles=quantiles)


@triton.jit
def _block_of_keys(
    sum_QV, query_QA, query, query_high, query_low, start, k, v, position, time, high, low, cells, length,
    k_stride, v_stride, A: tl.constexpr, V: tl.constexpr, BIAS: tl.constexpr, FAST: tl.constexpr, K: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """sum_QV plus what the keys from `start` on add."""
    key = tl.minimum(start + tl.arange(0, K), length - 1)
    score_QK = tl.dot(query_QA, tl.trans(_rows(k, start, length, k_stride, A, K)), input_precision="ieee")
    if BIAS:
        key_high, key_low = moments(high, low, key, BIAS)
        score_QK += bias(
            query[:, None], key[None, :], query_high[:, None], query_low[:, None], key_high[None, :],
            key_low[None, :], position, time, cells,
        )  # fmt: skip
    weight_QK = score_QK * _sigmoid(score_QK, FAST)
    if MASKED:
        weight_QK = tl.where(query[:, None] >= key[None, :], weight_QK, 0.0)
    value_KV = _rows(v, start, length, v_stride, V, K)
    return tl.dot(weight_QK.to(value_KV.dtype), value_KV, sum_QV, input_precision="ieee")


@_fastest(SHAPE, _blocks((128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)), lambda stages, Q, K: Q + stages * 2 * K)
@triton.jit
def _forward(
    q, k, v, out, position, time, high, low, cells, offsets, scale, q_stride, k_stride, v_stride, out_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, BIAS: tl.constexpr, FAST: tl.constexpr,
    Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head, begin, length = _place(offsets, N)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q  # those with the most keys start first
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    out += begin * out_stride + head * V
    high += begin
    low += begin
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, BIAS)
    query_QA = _rows(q, first, length, q_stride, A, Q)
    sum_QV = tl.zeros([Q, V], tl.float32)
    for start in range(0, first, K):
        sum_QV = _block_of_keys(
            sum_QV, query_QA, query, query_high, query_low, start, k, v, position, time, high, low, cells, length,
            k_stride, v_stride, A, V, BIAS, FAST, K, False,
        )  # fmt: skip
    for start in range(first, tl.minimum(first + Q, length), K):
        sum_QV = _block_of_keys(
            sum_QV, query_QA, query, query_high, query_low, start, k, v, position, time, high, low, cells, length,
            k_stride, v_stride, A, V, BIAS, FAST, K, True,
        )  # fmt: skip
    _store(out, sum_QV * scale, first, length, out_stride, V, Q)


@_fastest(SHAPE, _blocks((64, 128, 8, 2), (64, 64, 8, 2), (32, 64, 8, 2)), lambda stages, Q, K: 2 * K + stages * 2 * Q)
@triton.jit
def _backward_keys(
    q, k, v, grad, dk, dv, position, time, high, low, cells, offsets, scale,
    q_stride, k_stride, v_stride, grad_stride, dk_stride, dv_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, BIAS: tl.constexpr, FAST: tl.constexpr,
    Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head, begin, length = _place(offsets, N)
    first = tl.program_id(0) * K
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    high += begin
    low += begin
    key = tl.minimum(first + tl.arange(0, K), length - 1)
    key_high, key_low = moments(high, low, key, BIAS)
    key_KA = _rows(k, first, length, k_stride, A, K)
    value_KV = _rows(v, first, length, v_stride, V, K)
    of_key_KA = tl.zeros([K, A], tl.float32)
    of_value_KV = tl.zeros([K, V], tl.float32)
    for start in range(first // Q * Q, length, Q):
        query = tl.minimum(start + tl.arange(0, Q), length - 1)
        query_QA = _rows(q, start, length, q_stride, A, Q)
        grad_QV = _rows(grad, start, length, grad_stride, V, Q)
        score_KQ = tl.dot(key_KA, tl.trans(query_QA), input_precision="ieee")
        if BIAS:
            query_high, query_low = moments(high, low, query, BIAS)
            score_KQ += bias(
                query[None, :], key[:, None], query_high[None, :], query_low[None, :], key_high[:, None],
                key_low[:, None], position, time, cells,
            )  # fmt: skip
        seen = query[None, :] >= key[:, None]
        weight_KQ, slope_KQ = _weights_and_slope(score_KQ, seen, FAST)
        of_value_KV = tl.dot(weight_KQ.to(grad_QV.dtype), grad_QV, of_value_KV, input_precision="ieee")
        of_weight_KQ = tl.dot(value_KV, tl.trans(grad_QV), input_precision="ieee")
        of_score_KQ = tl.where(seen, of_weight_KQ * slope_KQ, 0.0)
        of_key_KA = tl.dot(of_score_KQ.to(query_QA.dtype), query_QA, of_key_KA, input_precision="ieee")
    _store(dk + begin * dk_stride + head * A, of_key_KA * scale, first, length, dk_stride, A, K)
    _store(dv + begin * dv_stride + head * V, of_value_KV * scale, first, length, dv_stride, V, K)


@_fastest(SHAPE, _blocks((128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2)), lambda stages, Q, K: 2 * Q + stages * 2 * K)
@triton.jit
def _backward_queries(
    q, k, v, grad, dq, position, time, high, low, cells, offsets, scale,
    q_stride, k_stride, v_stride, grad_stride, dq_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, BIAS: tl.constexpr, FAST: tl.constexpr,
    Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head, begin, length = _place(offsets, N)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    high += begin
    low += begin
    query = tl.minimum(first + tl.arange(0, Q), length - 1)
    query_high, query_low = moments(high, low, query, BIAS)
    query_QA = _rows(q, first, length, q_stride, A, Q)
    grad_QV = _rows(grad, first, length, grad_stride, V, Q)
    of_query_QA = tl.zeros([Q, A], tl.float32)
    for start in range(0, tl.minimum(first + Q, length), K):
        key = tl.minimum(start + tl.arange(0, K), length - 1)
        key_KA = _rows(k, start, length, k_stride, A, K)
        value_KV = _rows(v, start, length, v_stride, V, K)
        score_QK = tl.dot(query_QA, tl.trans(key_KA), input_precision="ieee")
        if BIAS:
            key_high, key_low = moments(high, low, key, BIAS)
            score_QK += bias(
                query[:, None], key[None, :], query_high[:, None], query_low[:, None], key_high[None, :],
                key_low[None, :], position, time, cells,
            )  # fmt: skip
        seen = query[:, None] >= key[None, :]
        _, slope_QK = _weights_and_slope(score_QK, seen, FAST)
        of_weight_QK = tl.dot(grad_QV, tl.trans(value_KV), input_precision="ieee")
        of_score_QK = tl.where(seen, of_weight_QK * slope_QK, 0.0)
        of_query_QA = tl.dot(of_score_QK.to(key_KA.dtype), key_KA, of_query_QA, input_precision="ieee")
    _store(dq + begin * dq_stride + head * A, of_query_QA * scale, first, length, dq_stride, A, Q)


@_fastest(
    ["A", "V"],
    [triton.Config({}, num_warps=8, num_stages=stages) for stages in (2, 1)],
    lambda stages: stages * 4 * BIAS_BLOCK,
)
@triton.jit
def _backward_bias(
    q, k, v, grad, of_position, of_time, position, time, high, low, cells, offsets, scale,
    q_stride, k_stride, v_stride, grad_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, T: tl.constexpr, FAST: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Blocks of K queries and K keys along one diagonal of one sequence."""
    window, windows = tl.program_id(0), tl.num_programs(0)
    begin = tl.load(offsets + tl.program_id(1))
    length = (tl.load(offsets + tl.program_id(1) + 1) - begin).to(tl.int32)
    high += begin
    low += begin
    row, buckets = tl.arange(0, K), tl.arange(0, T)
    sum_KK = tl.zeros([K, K], tl.float32)
    sum_T = tl.zeros([T], tl.float32)
    for start in range(window * K, length, K):
        first_key = start - window * K
        query = tl.minimum(start + row, length - 1)
        key = tl.minimum(first_key + row, length - 1)
        query_high, query_low = moments(high, low, query, True)
        key_high, key_low = moments(high, low, key, True)
        bucket_KK = time_bucket(query_high[:, None], query_low[:, None], key_high[None, :], key_low[None, :], cells)
        seen = query[:, None] >= key[None, :]
        distance = tl.maximum(query[:, None] - key[None, :], 0)
        bias_KK = tl.load(position + distance) + tl.load(time + bucket_KK)
        of_score_KK = tl.zeros([K, K], tl.float32)
        for head in range(N):
            query_KA = _rows(q + begin * q_stride + head * A, start, length, q_stride, A, K)
            key_KA = _rows(k + begin * k_stride + head * A, first_key, length, k_stride, A, K)
            grad_KV = _rows(grad + begin * grad_stride + head * V, start, length, grad_stride, V, K)
            value_KV = _rows(v + begin * v_stride + head * V, first_key, length, v_stride, V, K)
            score_KK = tl.dot(query_KA, tl.trans(key_KA), input_precision="ieee") + bias_KK
            of_weight_KK = tl.dot(grad_KV, tl.trans(value_KV), input_precision="ieee")
            _, slope_KK = _weights_and_slope(score_KK, seen, FAST)
            of_score_KK += tl.where(seen, of_weight_KK * slope_KK, 0.0)
        sum_KK += of_score_KK
        least = tl.min(tl.min(tl.where(seen, bucket_KK, T), 1), 0)
        most = tl.max(tl.max(tl.where(seen, bucket_KK, -1), 1), 0)
        for bucket in range(least, most + 1):
            of_bucket = tl.sum(tl.sum(tl.where(bucket_KK == bucket, of_score_KK, 0.0), 1), 0)
            sum_T += tl.where(buckets == bucket, of_bucket, 0.0)
    program = (tl.program_id(1) * windows + window).to(tl.int64)
    tl.store(of_position + program * K * K + row[:, None] * K + row[None, :], sum_KK * scale)
    tl.store(of_time + program * T + buckets, sum_T * scale)
