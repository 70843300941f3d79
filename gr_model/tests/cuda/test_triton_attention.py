"""Triton's attention against the formula of the paper in float64, one cell at a time, and against plain PyTorch."""

import pytest
import torch
import triton
import triton.language as tl

from gr_model import attention
from gr_model.config import ModelConfig
from gr_model.jagged import offsets_of
from gr_model.tests import reference
from gr_model.triton_attention import Bias, attend
from gr_model.triton_bias import split_times, time_bucket

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BUCKETS, POSITIONS, SCALE = 40, 80, 1 / 80
BIASES = (False, True)


def inputs(lengths, heads, width, value_width, dtype=torch.float32, seed=0):
    """q, k, v as parts of one product, so that tokens are further apart than their heads are wide; times in order."""
    torch.manual_seed(seed)
    whole = torch.randn(sum(lengths), heads * (2 * width + value_width))
    parts = whole.to(dtype).to(DEVICE).split([heads * width, heads * width, heads * value_width], 1)
    qkv = [part.unflatten(1, (heads, -1)).requires_grad_() for part in parts]
    tables = [(torch.randn(size) * 0.5).to(DEVICE).requires_grad_() for size in (POSITIONS, BUCKETS)]
    # Gaps of seconds and of years, and equal times.
    gaps = [(2 ** (torch.rand(n) * 28) - 1).long() * (torch.rand(n) < 0.8) for n in lengths]
    times = torch.cat([1_000_000_000 + gap.cumsum(0) for gap in gaps]) if lengths else torch.zeros(0).long()
    return qkv, tables, times


def run(lengths, qkv, tables, times, biased):
    bias = Bias(*tables, times.to(DEVICE), attention.time_cells(BUCKETS, DEVICE)) if biased else None
    return attend(*qkv, offsets_of(torch.tensor(lengths)).to(DEVICE), max(lengths, default=0), SCALE, bias)


def by_the_formula(lengths, qkv, tables, times, biased):
    """One sequence, head, query and key at a time, in float64; torch for its gradients alone."""
    q, k, v = (x.detach().double().cpu().requires_grad_() for x in qkv)
    position, time = (x.detach().double().cpu().requires_grad_() for x in tables)
    out, begin = [], 0
    for n in lengths:
        bucket = torch.tensor(
            [[reference.bucket(max(0, int(times[begin + i] - times[begin + j])), BUCKETS) for j in range(n)]
             for i in range(n)], dtype=torch.int64).reshape(n, n)  # fmt: skip
        distance = torch.tensor([[max(0, i - j) for j in range(n)] for i in range(n)], dtype=torch.int64).reshape(n, n)
        score = torch.einsum("ina,jna->nij", q[begin : begin + n], k[begin : begin + n])
        if biased:
            score = score + position[distance] + time[bucket]
        weight = score / (1 + torch.exp(-score)) * torch.tril(torch.ones(n, n, dtype=torch.float64))
        out.append(torch.einsum("nij,jnv->inv", weight, v[begin : begin + n]) * SCALE)
        begin += n
    return torch.cat(out), (q, k, v, position, time) if biased else (q, k, v)


# 1: alone; 33: a block of queries and one more; 70: several; 16: whole ones; 0: no row. Heads and widths differ.
@pytest.mark.parametrize("lengths", [(1,), (33, 17, 1, 0), (70, 16, 0, 5)])
@pytest.mark.parametrize(("heads", "width", "value_width"), [(1, 16, 16), (3, 16, 32)])
@pytest.mark.parametrize("biased", BIASES)
def test_output_and_gradients_equal_the_formula(lengths, heads, width, value_width, biased):
    qkv, tables, times = inputs(lengths, heads, width, value_width)
    expected, leaves = by_the_formula(lengths, qkv, tables, times, biased)
    out = run(lengths, qkv, tables, times, biased)
    grad = torch.randn(out.shape)
    wanted = torch.autograd.grad(expected, leaves, grad.double())
    found = torch.autograd.grad(out, [*qkv, *tables] if biased else qkv, grad.to(DEVICE))
    for given, right in zip((out, *found), (expected, *wanted), strict=True):
        assert right.abs().max() > 0
        torch.testing.assert_close(
            given.detach().double().cpu(), right.detach(), rtol=2e-5, atol=2e-6 * float(right.abs().max())
        )


@pytest.mark.parametrize("biased", BIASES)
def test_half_precision_is_as_near_as_its_rounding(biased):
    """bfloat16 on a GPU; the interpreter of Triton 3.2 takes its bits for numbers, so float16 there."""
    dtype, bound = (torch.bfloat16, 6e-3) if DEVICE.type == "cuda" else (torch.float16, 1e-3)
    lengths = (33, 1)
    qkv, tables, times = inputs(lengths, 2, 16, 16, dtype)
    expected, leaves = by_the_formula(lengths, qkv, tables, times, biased)
    out = run(lengths, qkv, tables, times, biased)
    grad = torch.randn(out.shape).to(dtype)
    wanted = torch.autograd.grad(expected, leaves, grad.double())
    found = torch.autograd.grad(out, [*qkv, *tables] if biased else qkv, grad.to(DEVICE))
    for given, right in zip((out, *found), (expected, *wanted), strict=True):
        error = (given.detach().double().cpu() - right).norm() / right.norm()
        assert error < bound


@triton.jit
def buckets(high, low, first_high, first_low, cells, out, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    query_high, query_low = tl.load(high + at), tl.load(low + at)
    found = time_bucket(query_high, query_low, tl.load(first_high), tl.load(first_low), cells)
    tl.store(out + at, found)


def test_buckets_are_those_of_plain_attention():
    """At each bucket's edge, one second beside it, and at any time, forward in time and backward."""
    count = 128
    least = attention.thresholds(count)
    edges = least[1:][least[1:] < 2**47]
    drawn = (2 ** (torch.rand(1018 - 3 * len(edges), dtype=torch.float64) * 47)).long()
    since = torch.cat([edges, edges - 1, edges + 1, drawn, torch.tensor([0, 1, -1, -5, -(2**33), 2**47])])
    earlier = 12_345_678_901
    high, low = (part.to(DEVICE) for part in split_times(torch.cat([torch.zeros(1).long(), earlier + since])))
    at_first = (part.to(DEVICE) for part in split_times(torch.tensor([0, earlier])))
    found = torch.empty(len(since), dtype=torch.int32, device=DEVICE)
    first_high, first_low = (part[1:] for part in at_first)
    buckets[(1,)](
        high[1:], low[1:], first_high, first_low, attention.time_cells(count, DEVICE), found, COUNT=len(since)
    )
    expected = attention.time_bucket(since, ModelConfig(time_buckets=count))
    assert found.cpu().tolist() == expected.tolist()


def test_nothing_in_and_nothing_out():
    for lengths in ((), (0, 0)):
        qkv, tables, times = inputs(lengths, 2, 16, 16)
        out = run(lengths, qkv, tables, times, True)
        assert out.shape == (0, 2, 16)
        found = torch.autograd.grad(out.sum(), [*qkv, *tables])
        assert [float(x.abs().sum()) for x in found] == [0.0] * 5
