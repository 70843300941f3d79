"""Causal pointwise attention on CUDA in Triton: SiLU(q k) v * scale over jagged sequences, without a bias.

As in flash attention scores never leave the chip, and the backward pass calculates them again; SiLU needs no maximum
and no sum of a row, so nothing but the inputs is kept. The gradients of keys and values and that of the queries are two
kernels: seven products in place of five, but no atomic sums, and the same bits every time.
Shape suffixes as in hstu.py; Q and K tokens of one block of queries and of keys.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


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


def _configs(shapes: list[tuple[int, int, int, int]]) -> list[triton.Config]:
    return [triton.Config({"Q": q, "K": k}, num_warps=warps, num_stages=stages) for q, k, warps, stages in shapes]


@triton.autotune(_configs([(128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 2)]), key=["A", "V"])
@triton.jit
def _forward(
    q, k, v, out, offsets, scale, q_stride, k_stride, v_stride, out_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, FAST: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) % N
    begin = tl.load(offsets + tl.program_id(1) // N)
    length = (tl.load(offsets + tl.program_id(1) // N + 1) - begin).to(tl.int32)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q  # those with the most keys start first
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    out += begin * out_stride + head * V
    query_QA = _rows(q, first, length, q_stride, A, Q)
    sum_QV = tl.zeros([Q, V], tl.float32)
    for key in range(0, first, K):
        score_QK = tl.dot(query_QA, tl.trans(_rows(k, key, length, k_stride, A, K)), input_precision="ieee")
        weight_QK = score_QK * _sigmoid(score_QK, FAST)
        value_KV = _rows(v, key, length, v_stride, V, K)
        sum_QV = tl.dot(weight_QK.to(value_KV.dtype), value_KV, sum_QV, input_precision="ieee")
    for key in range(first, tl.minimum(first + Q, length), K):
        score_QK = tl.dot(query_QA, tl.trans(_rows(k, key, length, k_stride, A, K)), input_precision="ieee")
        seen = (first + tl.arange(0, Q))[:, None] >= (key + tl.arange(0, K))[None, :]
        weight_QK = tl.where(seen, score_QK * _sigmoid(score_QK, FAST), 0.0)
        value_KV = _rows(v, key, length, v_stride, V, K)
        sum_QV = tl.dot(weight_QK.to(value_KV.dtype), value_KV, sum_QV, input_precision="ieee")
    _store(out, sum_QV * scale, first, length, out_stride, V, Q)


@triton.autotune(_configs([(64, 128, 8, 2), (64, 64, 8, 2), (32, 64, 8, 2)]), key=["A", "V"])
@triton.jit
def _backward_keys(
    q, k, v, grad, dk, dv, offsets, scale, q_stride, k_stride, v_stride, grad_stride, dk_stride, dv_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, FAST: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) % N
    begin = tl.load(offsets + tl.program_id(1) // N)
    length = (tl.load(offsets + tl.program_id(1) // N + 1) - begin).to(tl.int32)
    first = tl.program_id(0) * K
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    key_KA = _rows(k, first, length, k_stride, A, K)
    value_KV = _rows(v, first, length, v_stride, V, K)
    of_key_KA = tl.zeros([K, A], tl.float32)
    of_value_KV = tl.zeros([K, V], tl.float32)
    for query in range(first // Q * Q, length, Q):
        query_QA = _rows(q, query, length, q_stride, A, Q)
        grad_QV = _rows(grad, query, length, grad_stride, V, Q)
        score_KQ = tl.dot(key_KA, tl.trans(query_QA), input_precision="ieee")
        sigmoid_KQ = _sigmoid(score_KQ, FAST)
        seen = (query + tl.arange(0, Q))[None, :] >= (first + tl.arange(0, K))[:, None]
        weight_KQ = tl.where(seen, score_KQ * sigmoid_KQ, 0.0)
        of_value_KV = tl.dot(weight_KQ.to(grad_QV.dtype), grad_QV, of_value_KV, input_precision="ieee")
        of_weight_KQ = tl.dot(value_KV, tl.trans(grad_QV), input_precision="ieee")
        slope_KQ = sigmoid_KQ + weight_KQ * (1 - sigmoid_KQ)
        of_score_KQ = tl.where(seen, of_weight_KQ * slope_KQ, 0.0)
        of_key_KA = tl.dot(of_score_KQ.to(query_QA.dtype), query_QA, of_key_KA, input_precision="ieee")
    _store(dk + begin * dk_stride + head * A, of_key_KA * scale, first, length, dk_stride, A, K)
    _store(dv + begin * dv_stride + head * V, of_value_KV * scale, first, length, dv_stride, V, K)


@triton.autotune(_configs([(128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2)]), key=["A", "V"])
@triton.jit
def _backward_queries(
    q, k, v, grad, dq, offsets, scale, q_stride, k_stride, v_stride, grad_stride, dq_stride,
    N: tl.constexpr, A: tl.constexpr, V: tl.constexpr, FAST: tl.constexpr, Q: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) % N
    begin = tl.load(offsets + tl.program_id(1) // N)
    length = (tl.load(offsets + tl.program_id(1) // N + 1) - begin).to(tl.int32)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * Q
    if first >= length:
        return
    q += begin * q_stride + head * A
    k += begin * k_stride + head * A
    v += begin * v_stride + head * V
    grad += begin * grad_stride + head * V
    query_QA = _rows(q, first, length, q_stride, A, Q)
    grad_QV = _rows(grad, first, length, grad_stride, V, Q)
    of_query_QA = tl.zeros([Q, A], tl.float32)
    for key in range(0, tl.minimum(first + Q, length), K):
        key_KA = _rows(k, key, length, k_stride, A, K)
        score_QK = tl.dot(query_QA, tl.trans(key_KA), input_precision="ieee")
        sigmoid_QK = _sigmoid(score_QK, FAST)
        value_KV = _rows(v, key, length, v_stride, V, K)
        of_weight_QK = tl.dot(grad_QV, tl.trans(value_KV), input_precision="ieee")
        seen = (first + tl.arange(0, Q))[:, None] >= (key + tl.arange(0, K))[None, :]
        slope_QK = sigmoid_QK + score_QK * sigmoid_QK * (1 - sigmoid_QK)
        of_score_QK = tl.where(seen, of_weight_QK * slope_QK, 0.0)
        of_query_QA = tl.dot(of_score_QK.to(key_KA.dtype), key_KA, of_query_QA, input_precision="ieee")
    _store(dq + begin * dq_stride + head * A, of_query_QA * scale, first, length, dq_stride, A, Q)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offsets: torch.Tensor, longest: int, scale: float
    ) -> torch.Tensor:
        q, k, v = (_rows_of_heads(x) for x in (q, k, v))
        ctx.save_for_backward(q, k, v, offsets)
        ctx.longest, ctx.scale = longest, scale
        out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
        if out.numel():
            _forward[_grid("Q", longest, q, offsets)](
                q, k, v, out, offsets, scale, q.stride(0), k.stride(0), v.stride(0), out.stride(0), **_shape(q, v)
            )
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, offsets = ctx.saved_tensors
        grad = _rows_of_heads(grad)
        dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        strides = q.stride(0), k.stride(0), v.stride(0), grad.stride(0)
        if grad.numel():
            _backward_keys[_grid("K", ctx.longest, q, offsets)](
                q, k, v, grad, dk, dv, offsets, ctx.scale, *strides, dk.stride(0), dv.stride(0), **_shape(q, v)
            )
            _backward_queries[_grid("Q", ctx.longest, q, offsets)](
                q, k, v, grad, dq, offsets, ctx.scale, *strides, dq.stride(0), **_shape(q, v)
            )
        return dq, dk, dv, None, None, None


def attend(
    q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, offsets_B1: torch.Tensor, longest: int, scale: float
) -> torch.Tensor:
    """[L, N, V]. A and V: powers of two from 16 on."""
    return _Attention.apply(q_LNA, k_LNA, v_LNV, offsets_B1, longest, scale)


def fits(q_LNA: torch.Tensor, v_LNV: torch.Tensor) -> bool:
    """bfloat16 alone: products in float32 are faster in PyTorch's library (gr_model.blocked)."""
    widths = q_LNA.shape[2], v_LNV.shape[2]
    known = all(width in (16, 32, 64, 128, 256) for width in widths)
    return q_LNA.is_cuda and q_LNA.dtype == torch.bfloat16 and known


def _grid(block: str, longest: int, q: torch.Tensor, offsets: torch.Tensor) -> Any:
    return lambda meta: (triton.cdiv(longest, meta[block]), (len(offsets) - 1) * q.shape[1])


def _shape(q: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    return {"N": q.shape[1], "A": q.shape[2], "V": v.shape[2], "FAST": q.dtype == torch.bfloat16}


def _rows_of_heads(x_LNA: torch.Tensor) -> torch.Tensor:
    """The heads of a token lie side by side; tokens may be further apart, as in a part of a product."""
    side_by_side = x_LNA.stride(2) == 1 and x_LNA.stride(1) == x_LNA.shape[2]
    return x_LNA if side_by_side else x_LNA.contiguous()
