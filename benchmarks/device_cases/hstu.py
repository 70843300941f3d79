"""An HSTU layer: the attention, without and with the relative bias, and what is around it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from gr_ops.time_cells import cell_starts, cells_of

from .case import Case

MXREC = torch.ops.mxrec
LEAST = [-(2**63), *range(2, 5), *(int(5 * 1.35**n) for n in range(60))]  # seconds, of each bucket of differences


def attention(small: bool) -> Iterator[Case]:
    batch, length, heads, dim = (2, 64, 2, 32) if small else (8, 2048, 4, 128)
    offsets = torch.arange(batch + 1) * length
    q, k, v, grad = (torch.rand(batch * length, heads, dim).sub(0.5).half() for _ in range(4))
    flops = 4.0 * batch * heads * dim * length * (length + 1) / 2
    shape = f"B {batch}, S {length}, H {heads}, D {dim} fp16, causal"
    yield Case(
        operator="hstu_dense",
        shape=shape,
        call=lambda q, k, v, o: MXREC.hstu_dense(q, k, v, None, None, 0, length, 0.0, "jagged", o),
        inputs=(q, k, v, offsets),
        moved_bytes=4 * q.nbytes,
        flops=flops,
        tolerance=1e-2,
    )
    yield Case(
        operator="hstu_dense_backward",
        shape=shape,
        call=lambda g, q, k, v, o: MXREC.hstu_dense_backward(g, q, k, v, None, None, "jagged", 0, length, 0.0, o)[:3],
        inputs=(grad, q, k, v, offsets),
        moved_bytes=7 * q.nbytes,
        flops=2.5 * flops,
        tolerance=1e-2,
    )


def relative(small: bool) -> Iterator[Case]:
    """With tables by position and by time; tokens follow each other after 240 s in the mean."""
    batch, length, heads, dim = (2, 64, 2, 32) if small else (8, 2048, 4, 128)
    offsets = torch.arange(batch + 1) * length
    q, k, v, grad = (torch.rand(batch * length, heads, dim).sub(0.5).half() for _ in range(4))
    gaps = torch.empty(batch, length, dtype=torch.float64).exponential_(1 / 240)
    times = gaps.cumsum(1).long().flatten()
    position, time = torch.rand(length).sub(0.5), torch.rand(len(LEAST)).sub(0.5)
    flops = 4.0 * batch * heads * dim * length * (length + 1) / 2
    shape = f"B {batch}, S {length}, H {heads}, D {dim} fp16, causal"
    tables = (position, time, times, cells(), offsets)
    rest = (None, None, 0, length, 1.0 / length)
    least = times.nbytes + position.nbytes + time.nbytes
    yield Case(
        operator="hstu_relative",
        shape=shape,
        call=lambda *inputs: MXREC.hstu_relative(*inputs, *rest),
        inputs=(q, k, v, *tables),
        moved_bytes=4 * q.nbytes + least,
        flops=flops,
        tolerance=1e-2,
    )
    yield Case(
        operator="hstu_relative_gradients",
        shape=shape,
        call=lambda *inputs: MXREC.hstu_relative_gradients(*inputs, *rest)[:3],
        inputs=(grad, q, k, v, *tables),
        moved_bytes=7 * q.nbytes + 2 * least,
        flops=2.5 * flops,
        tolerance=1e-2,
    )


def cells() -> torch.Tensor:
    """The buckets of LEAST by the cells of float32 numbers."""
    edges = torch.tensor(LEAST).float()
    starts = torch.tensor([float(start) for start in cell_starts()])
    return cells_of(torch.searchsorted(edges, starts, right=True) - 1, torch.tensor(LEAST))


def layer(small: bool) -> Iterator[Case]:
    """Around the attention; the gradients of the weights are a product each."""
    tokens, dim, width = (300, 64, 64) if small else (16_384, 512, 512)
    split = [width] * 4
    x, grad, attended, u = (torch.rand(tokens, n).sub(0.5).half() for n in (dim, dim, width, width))
    weight = torch.rand(dim, 4 * width).sub(0.5).div(dim**0.5).half()
    output, bias = torch.rand(dim, width).sub(0.5).div(width**0.5).half(), torch.rand(dim).half()
    grads, keep = [torch.rand(tokens, n).half() for n in split], torch.rand(tokens, width) < 0.8
    shape = f"L {tokens:,}, D {dim}, V {width} fp16"
    projection, gated = 8.0 * tokens * dim * width, 2.0 * tokens * dim * width
    parts, both = 4 * u.nbytes, attended.nbytes + u.nbytes
    yield Case(
        operator="hstu_projection",
        shape=shape,
        call=lambda x, w: MXREC.hstu_projection(x, w, split, 1e-6),
        inputs=(x, weight),
        moved_bytes=x.nbytes + weight.nbytes + parts,
        flops=projection,
        tolerance=1e-2,
    )
    yield Case(
        operator="hstu_projection_backward",
        shape=shape,
        call=lambda x, w, *grads: MXREC.hstu_projection_backward(list(grads), x, w, split, 1e-6),
        inputs=(x, weight, *grads),
        moved_bytes=2 * x.nbytes + 2 * weight.nbytes + parts,
        flops=3 * projection,
        tolerance=5e-2,
    )
    yield Case(
        operator="hstu_gated_output",
        shape=shape,
        call=lambda *inputs: MXREC.hstu_gated_output(*inputs, 1.25, 1e-6),
        inputs=(attended, u, x, output, bias, keep),
        moved_bytes=both + 2 * x.nbytes + output.nbytes + keep.nbytes,
        flops=gated,
        tolerance=1e-2,
    )
    yield Case(
        operator="hstu_gated_output_backward",
        shape=shape,
        call=lambda *inputs: MXREC.hstu_gated_output_backward(*inputs, 1.25, 1e-6),
        inputs=(grad, attended, u, output, keep),
        moved_bytes=2 * both + grad.nbytes + 2 * output.nbytes + keep.nbytes,
        flops=2 * gated,
        tolerance=5e-2,
    )
