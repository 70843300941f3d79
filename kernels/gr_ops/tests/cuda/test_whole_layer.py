"""A layer of a training step as one function, against its formulas in float64 PyTorch, and what it takes."""

import dataclasses
import itertools

import pytest
import time_buckets
import torch
import torch.nn.functional as F
from cuda_cases import ON_GPU
from gr_ops.cuda import paths
from gr_ops.cuda.layer import hopper_products, rows, training, whole
from gr_ops.cuda.slope_codes import STEPS, ZERO
from test_hopper import HOPPER, visible

EPS = 1e-6
LENGTHS = (300, 1, 129, 64)
MASKS = {
    "causal": {},
    "targets": {"targets": (100, 0, 3, 1)},
    "contexts and targets": {"contexts": (70, 1, 2, 0), "targets": (100, 0, 3, 1)},
}
DIM, HEADS, WIDTH = 192, 2, 128
# Of x, and of all between it and the output: under autocast x stays float32.
TYPES = [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16), (torch.float32, torch.float16)]
NAMES = ("out", "x", "weight", "output", "bias", "position", "time")


def tensors(relative, width=WIDTH, stream=torch.float32):
    """x, both weights, the bias, and the tables; what dropout keeps; times."""
    generator = torch.Generator().manual_seed(5)

    def drawn(*shape):
        return torch.randn(shape, generator=generator)

    tokens, values = sum(LENGTHS), HEADS * width
    leaves = [
        drawn(tokens, DIM).to(stream) + 1.0,
        drawn(DIM, 4 * values) * 2 * DIM**-0.5,
        drawn(DIM, values) * values**-0.5,
        drawn(DIM),
    ]
    if relative:
        leaves += [drawn(max(LENGTHS) + 5), drawn(time_buckets.COUNT)]
    keep = torch.rand(tokens, values, generator=generator) < 0.7
    gaps = [(2 ** (torch.rand(n, generator=generator) * 28) - 1).long() for n in LENGTHS]
    return leaves, keep, torch.cat([10**9 + gap.cumsum(0) for gap in gaps])


def attended(q, k, v, tables, times, masks):
    """[L, N, V] in float64, one row at a time."""
    outs, begin = [], 0
    starts = torch.tensor(time_buckets.STARTS, device=q.device)
    for row, n in enumerate(LENGTHS):
        own = slice(begin, begin + n)
        begin += n
        counts = [masks[name][row] if name in masks else 0 for name in ("contexts", "targets")]
        score = q[own].transpose(0, 1) @ k[own].permute(1, 2, 0)
        if tables:
            place = torch.arange(n, device=q.device).clamp(max=n - counts[1])
            apart = (times[own][:, None] - times[own][None, :]).clamp(min=0)
            score = score + tables[0][(place[:, None] - place[None, :]).clamp(min=0)]
            score = score + tables[1][torch.searchsorted(starts, apart, right=True) - 1]
        weight = torch.where(visible(n, *counts, 1, 0, 0), F.silu(score) / max(LENGTHS), 0.0)
        outs.append((weight @ v[own].transpose(0, 1)).transpose(0, 1))
    return torch.cat(outs)


def formula(leaves, keep, times, masks):
    x, weight, output, bias, *tables = leaves
    u, v, q, k = F.silu(F.layer_norm(x, x.shape[1:], eps=EPS) @ weight).chunk(4, dim=1)
    q, k, v = (part.unflatten(1, (HEADS, -1)) for part in (q, k, v))
    a = attended(q, k, v, tables, times, masks).flatten(1)
    return x + F.linear(F.layer_norm(a, a.shape[1:], eps=EPS) * u * keep / 0.7, output, bias)


def arguments(relative, masks, times, width, dtype):
    def on_gpu(counts):
        return None if counts is None else torch.tensor(counts, device="cuda")

    seconds = {"times_L": times, "cells": time_buckets.cells(torch.device("cuda"))} if relative else {}
    offsets = on_gpu([0, *itertools.accumulate(LENGTHS)])
    segments = (on_gpu(masks.get("contexts")), on_gpu(masks.get("targets")))
    attention = whole.Attention(HEADS, offsets, *segments, max(LENGTHS), 1 / max(LENGTHS), **seconds)
    return whole.Numbers((HEADS * width,) * 4, EPS, EPS, dtype, 1 / 0.7), attention


def by_one_function(leaves, keep, numbers, attention):
    x, weight, output, bias, *tables = leaves
    assert whole.takes(x, weight, numbers, attention, tables)
    return whole.layer(x, weight, output, bias, keep, numbers, attention, tables)


def by_several(leaves, keep, numbers, attention):
    x, weight, output, bias, *tables = leaves
    x, u, v, q, k = training.project(x, weight, numbers.split, EPS, numbers.dtype)
    q, k, v = (attention.by_heads(part) for part in (q, k, v))
    a = attention.attend(q, k, v, tables).flatten(1)
    return training.add_gated(x, a, u, output, bias, keep, numbers.scale, EPS)


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("width", "relative"), [(64, False), (128, False), (128, True), (256, False)])
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_a_layer(types, width, relative, name):
    """No further from float64 than the functions that multiply again, but for what 8 bits of a slope are."""
    stream, dtype = types
    drawn, keep, times = tensors(relative, width, stream)
    keep, times = keep.cuda(), times.cuda()
    numbers, attention = arguments(relative, MASKS[name], times, width, dtype)
    grad = torch.randn(len(keep), DIM, generator=torch.Generator().manual_seed(6)).to(stream).cuda()
    results = []
    for make, wide in ((by_one_function, None), (by_several, None), (None, torch.float64)):
        leaves = [x.cuda().to(wide or x.dtype).requires_grad_() for x in drawn]
        out = formula(leaves, keep, times, MASKS[name]) if make is None else make(leaves, keep, numbers, attention)
        out.backward(grad.to(out.dtype))
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for what, found, other, right in zip(NAMES, *results):
        assert found.dtype == other.dtype and found.shape == right.shape
        ours, theirs = (float((x.double() - right).norm() / right.norm()) for x in (found, other))
        assert ours < max(1.2 * theirs, theirs + 2e-3), (what, ours, theirs)


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU with the versions in gr_ops/cuda/paths.py")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("tokens", "dim", "width"), [(1, 64, 128), (3001, 192, 512)])
def test_codes_of_slopes(tokens, dim, width, dtype):
    """All of them within half a step and the error of a sigmoid in one instruction; the parts are those without."""
    a = torch.randn(tokens, dim, device="cuda").to(dtype)
    weight = (torch.randn(dim, 4 * width, device="cuda") * 3 * dim**-0.5).to(dtype)
    parts, plain = ([torch.empty(tokens, width, device="cuda", dtype=dtype) for _ in range(4)] for _ in range(2))
    codes = torch.full((tokens, 4 * width), 255, dtype=torch.uint8, device="cuda")
    hopper_products.silu_parts(a, weight, parts, codes)
    hopper_products.silu_parts(a, weight, plain)
    assert all(map(torch.equal, parts, plain))
    product = (a.double() @ weight.double()).requires_grad_()
    (slopes,) = torch.autograd.grad(F.silu(product).sum(), product)
    error = (codes.double() - ZERO) / STEPS - slopes
    assert codes.max() < 255
    assert float(error.abs().max()) < 0.5 / STEPS + 1.5e-3  # tanh.approx is off by 2^-11
    assert abs(float(error.mean())) < 1e-4


@pytest.mark.parametrize("dropped", [False, True])
def test_gradients_of_the_gate_times_slopes(dropped, device):
    """Into columns of a wider matrix; against those without slopes."""
    tokens, width = 70, 50
    of_gated, a, u = (torch.randn(tokens, width, device=device) for _ in range(3))
    keep = torch.rand(tokens, width, device=device) < 0.7 if dropped else None
    wide = torch.full((tokens, 3 * width), torch.nan, device=device)
    codes = torch.randint(0, 255, (tokens, 3 * width), dtype=torch.uint8, device=device)
    of_a, of_u, again = (torch.empty_like(a) for _ in range(3))
    own = slice(width, 2 * width)
    rows.gate_gradients(of_gated, a, u, keep, 1.3, EPS, (again, of_u))
    rows.gate_gradients(of_gated, a, u, keep, 1.3, EPS, (of_a, wide[:, own]), codes_LV=codes[:, own])
    assert torch.equal(of_a, again)
    torch.testing.assert_close(wide[:, own], of_u * (codes[:, own].float() - ZERO) / STEPS)
    assert wide[:, :width].isnan().all() and wide[:, 2 * width :].isnan().all()


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize(("tokens", "width"), [(37, 96), (1, 512), (9, 2048)])
def test_the_sum_of_queries_is_rounded_once(tokens, width, coded, device):
    import triton
    from gr_ops.cuda.hopper import rounding

    dtype = torch.bfloat16 if ON_GPU else torch.float16
    summed = torch.randn(tokens, width, device=device)
    codes = torch.randint(0, 255, (tokens, 2 * width), dtype=torch.uint8, device=device)[:, width:]
    made = torch.full((tokens, 2 * width), torch.nan, device=device, dtype=dtype)
    out, padded, per_program = made[:, :width], triton.next_power_of_2(width), 2
    numbers = (tokens, width, codes.stride(0), out.stride(0), coded, per_program, padded)
    rounding.round_sum[(triton.cdiv(tokens, per_program),)](summed, codes, out, *numbers)
    right = summed.double() * ((codes.double() - ZERO) / STEPS if coded else 1.0)
    last_bit = 2.0 ** (-8 if ON_GPU else -11)
    assert float(((out.double() - right).abs() / right.abs().clamp(min=1e-3)).max()) <= last_bit * 1.001
    assert made[:, width:].isnan().all()


@pytest.mark.parametrize(("tokens", "width", "size"), [(37, 96, 1024), (1, 40, 64), (8, 512, 4096)])
def test_the_sum_of_queries_begins_at_zero(tokens, width, size, device):
    """All of it, and nothing behind it."""
    import triton
    from gr_ops.cuda.hopper import rounding

    made = torch.full((tokens + 3, width), torch.nan, device=device)
    rounding.clear_sum[(triton.cdiv(tokens * width, size),)](made, tokens, width // 8, size)
    assert (made[:tokens] == 0).all()
    assert made[tokens:].isnan().all()


@pytest.mark.parametrize("capability", [(9, 0), (8, 0), (10, 0)])
def test_which_layers_are_taken(capability, monkeypatch):
    """By shapes and types: what products and attention for Hopper take, both."""
    machine = paths.Machine(capability, "2.11.0", "3.6.0", gluon=True)
    monkeypatch.setattr(paths, "machine", lambda device: machine)
    monkeypatch.setattr(paths, "hopper", lambda p: paths.refusal(p, machine) is None or None)
    monkeypatch.setattr(hopper_products, "take", lambda a, b, parts: took(a, b, parts))

    def took(a, b, parts):
        shapes.append((tuple(a.shape), tuple(b.shape), [tuple(x.shape) for x in parts], a.dtype))
        return products

    class OnGpu(torch.Tensor):
        is_cuda = True

    def taken(tokens=100, width=256, **others):
        x = torch.zeros(tokens, 64).as_subclass(OnGpu)
        numbers = whole.Numbers((width,) * 4, EPS, EPS, torch.bfloat16, 1.0)
        attention = whole.Attention(2, torch.tensor([0, tokens]), None, None, max(tokens, 1), 1.0)
        attention, tables = dataclasses.replace(attention, **others), ()
        if others.get("cells") is not None:
            tables = (torch.zeros(9), torch.zeros(9))
        return whole.takes(x, torch.zeros(64, 4 * width), numbers, attention, tables)

    shapes, products = [], True
    relative = {"times_L": torch.zeros(100).long(), "cells": torch.zeros(512).long()}
    on_hopper = capability == (9, 0)
    assert taken() == taken(**relative) == taken(width=512) == on_hopper
    assert shapes[0] == ((100, 64), (64, 1024), [(100, 256)] * 4, torch.bfloat16)
    assert not taken(width=512, **relative)  # heads of 256
    assert not taken(tokens=0) and not taken(longest=0)
    products = False
    assert not taken()
