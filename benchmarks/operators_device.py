"""Times of the operators on an NPU or GPU, beside the bound of their bytes and products.

    python -m benchmarks.operators_device --device npu [--small] [--out FILE.json]

Each case is compared with the CPU's result of the same call first. Then it is called in rows that take 50 ms or more,
the device waited for at each row's end; the median of seven rows counts. The bound is the longer of the bytes that
must be read or written at least over the memory's speed, and of the products over the speed of the matrix units.
--small: shapes that emulated devices compute in seconds; their times say nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

MXREC = torch.ops.mxrec
ROWS, ROW_SECONDS = 7, 0.05
# Bytes and floating point operations (fp16, bf16) a second, by a part of the device's name; docs/targets.md.
PEAKS = {"Ascend910": (1.6e12, 376e12), "H100": (3.35e12, 989e12), "H200": (4.8e12, 989e12)}


@dataclass(frozen=True, kw_only=True)
class Case:
    operator: str
    shape: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]  # on the CPU
    moved_bytes: float
    flops: float = 0.0
    tolerance: float = 1e-5


def _sums(small: bool) -> Iterator[Case]:
    count = 10_000 if small else 1_000_000
    x = torch.randint(0, 20, (count,))
    yield Case(
        operator="asynchronous_complete_cumsum",
        shape=f"{count:,} int64",
        call=MXREC.asynchronous_complete_cumsum,
        inputs=(x,),
        moved_bytes=2 * x.nbytes,
    )


def _jagged(small: bool) -> Iterator[Case]:
    batch, longest, dim = (16, 20, 64) if small else (1024, 200, 64)
    lengths = torch.randint(0, longest + 1, (batch,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    values = torch.rand(int(lengths.sum()), dim)
    dense = MXREC.jagged_to_padded_dense_forward(values, [offsets], [longest])
    shape = f"B {batch}, S {longest}, D {dim} fp32"
    yield Case(
        operator="jagged_to_padded_dense",
        shape=shape,
        call=lambda v, o: MXREC.jagged_to_padded_dense_forward(v, [o], [longest]),
        inputs=(values, offsets),
        moved_bytes=values.nbytes + dense.nbytes,
    )
    yield Case(
        operator="dense_to_jagged",
        shape=shape,
        call=lambda d, o: MXREC.dense_to_jagged_forward(d, [o], len(values)),
        inputs=(dense, offsets),
        moved_bytes=2 * values.nbytes,
    )


def _sparse(small: bool) -> Iterator[Case]:
    tables, batch = (4, 64) if small else (26, 4096)
    lengths = torch.randint(0, 20, (tables, batch))
    count = int(lengths.sum())
    values = torch.randint(0, 1000, (count,))
    permute = torch.randperm(tables).int()
    shape = f"T {tables}, B {batch}, {count:,} int64"
    yield Case(
        operator="permute_2D_sparse_data",
        shape=shape,
        call=lambda p, l, v: MXREC.permute_2D_sparse_data(p, l, v, None, count)[:2],
        inputs=(permute, lengths, values),
        moved_bytes=2 * (values.nbytes + lengths.nbytes),
    )
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])
    yield Case(
        operator="bounds_check_indices",
        shape=shape,
        call=lambda r, i, o, w: (MXREC.bounds_check_indices(r, i, o, 1, w), i)[1],
        inputs=(torch.full((tables,), 1000), values, offsets, torch.zeros(1, dtype=torch.int64)),
        moved_bytes=values.nbytes + offsets.nbytes,
    )


def _gathers(small: bool) -> Iterator[Case]:
    length, count = (1000, 2000) if small else (20_000, 1_000_000)
    x, grad, index = torch.rand(length), torch.rand(count), torch.randint(0, length, (count,))
    shape = f"x {length:,}, n {count:,}"
    yield Case(
        operator="gather_for_rank1",
        shape=shape,
        call=MXREC.gather_for_rank1,
        inputs=(x, index),
        moved_bytes=index.nbytes + 4 * count,
    )
    yield Case(
        operator="index_select_for_rank1_backward",
        shape=shape,
        call=lambda g, x, i: MXREC.index_select_for_rank1_backward(g, x, i)[0],
        inputs=(grad, x, index),
        moved_bytes=2 * index.nbytes + 4 * count + 4 * length,  # zeros for the index too
        tolerance=1e-3,  # sums in another order
    )


def _lookups(small: bool) -> Iterator[Case]:
    tables, rows, dim, batch, bag = (2, 1000, 16, 16, 4) if small else (4, 100_000, 64, 256, 20)
    lengths = torch.randint(0, 2 * bag + 1, (tables * batch,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    indices = torch.randint(0, rows, (int(offsets[-1]),))
    starts, columns = torch.arange(tables) * rows * dim, torch.arange(tables + 1, dtype=torch.int32) * dim
    yield Case(
        operator="embedding_pool (SUM)",
        shape=f"{tables} tables, {rows:,} x {dim} fp32, {len(indices):,} indices",
        call=lambda w, s, c, i, o: MXREC.embedding_pool(w, s, c, tables * dim, dim, None, i, o, 0),
        inputs=(torch.rand(tables * rows * dim), starts, columns, indices, offsets),
        moved_bytes=len(indices) * (4 * dim + 8) + 4 * tables * batch * dim,
    )


def _attention(small: bool) -> Iterator[Case]:
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


def _layer(small: bool) -> Iterator[Case]:
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


def cases(small: bool) -> Iterator[Case]:
    torch.manual_seed(0)
    for made in (_sums, _jagged, _sparse, _gathers, _lookups, _attention, _layer):
        yield from made(small)


def measure(case: Case, device: torch.device, wait: Callable[[], None], *, bounded: bool) -> dict[str, Any]:
    inputs = [x.to(device) for x in case.inputs]
    expected, found = _list(case.call(*case.inputs)), _list(case.call(*inputs))
    torch.testing.assert_close([x.cpu() for x in found], expected, rtol=case.tolerance, atol=case.tolerance)
    wait()
    once = _row(case.call, inputs, 1, wait)
    calls = max(1, int(ROW_SECONDS / max(once, 1e-6)))
    rows = sorted(_row(case.call, inputs, calls, wait) for _ in range(ROWS))
    seconds = statistics.median(rows)
    speeds = next((peak for name, peak in PEAKS.items() if name in device_name(device)), None)
    bound = max(case.moved_bytes / speeds[0], case.flops / speeds[1]) if speeds and bounded else None
    return {
        "operator": case.operator,
        "shape": case.shape,
        "ms": round(seconds * 1e3, 4),
        "quartiles": [round(rows[i] * 1e3, 4) for i in (ROWS // 4, -1 - ROWS // 4)],
        "GB/s": round(case.moved_bytes / seconds / 1e9, 1),
        "TFLOP/s": round(case.flops / seconds / 1e12, 2) if case.flops else "",
        "bound ms": round(bound * 1e3, 4) if bound else "",
        "of bound": round(bound / seconds, 3) if bound else "",
    }


def _list(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _row(call: Callable[..., Any], inputs: list[torch.Tensor], calls: int, wait: Callable[[], None]) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call(*inputs)
    wait()
    return (time.perf_counter() - begin) / calls


def device_name(device: torch.device) -> str:
    return str(getattr(torch, device.type).get_device_name(device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="npu")
    parser.add_argument("--small", action="store_true", help="shapes for emulated devices")
    parser.add_argument("--out", type=Path, help="a JSON file (default: print only)")
    options = parser.parse_args()
    if options.device.startswith("npu"):
        importlib.import_module("torch_npu")
    importlib.import_module("gr_ops")
    device = torch.device(options.device)
    wait = getattr(torch, device.type).synchronize
    rows = []
    for case in cases(options.small):
        rows.append(measure(case, device, wait, bounded=not options.small))
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
