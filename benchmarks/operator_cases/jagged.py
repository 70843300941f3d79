"""Jagged to padded and back, and the prefix sums, beside fbgemm_gpu's CPU kernels."""

from collections.abc import Iterator

import torch

from . import roofline
from .cases import Case
from .peers import FBGEMM, OURS, STOCK, with_clone, with_roofline

TITLE = "Operators on the CPU: jagged tensors and prefix sums"


def _sums() -> Iterator[Case]:
    for shape_name, shape, dtype in (
        ("1e6 int64", (1_000_000,), torch.int64),
        ("1e6 int32", (1_000_000,), torch.int32),
        ("1e4 int64", (10_000,), torch.int64),
        ("128 int64", (128,), torch.int64),
        ("1000 x 1000 int64", (1000, 1000), torch.int64),
        ("1e6 fp32", (1_000_000,), torch.float32),
    ):
        x = torch.randint(0, 20, shape).to(dtype)
        yield Case(
            operator="complete_cumsum",
            shape=shape_name,
            peer=FBGEMM,
            ours=lambda x=x: OURS.asynchronous_complete_cumsum(x),
            theirs=lambda x=x: STOCK.asynchronous_complete_cumsum(x),
            moved_bytes=2 * x.nbytes,
        )


def _moves() -> Iterator[Case]:
    for shape, batch, longest, inner, dtype in (
        ("B 1024, S 200, D 64 fp32", 1024, 200, 64, torch.float32),
        ("B 512, S 100, D 128 fp16", 512, 100, 128, torch.float16),
        ("B 4096, S 200, int64 ids", 4096, 200, 1, torch.int64),
        ("B 32, S 50, D 32 fp32", 32, 50, 32, torch.float32),
    ):
        lengths = torch.randint(0, longest + 1, (batch,))
        offsets = [torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])]
        rows = int(lengths.sum())
        values = torch.randint(0, 100, (rows, inner)).to(dtype)
        dense = OURS.jagged_to_padded_dense(values, offsets, [longest])
        yield from with_clone(
            Case(
                operator="jagged_to_padded_dense",
                shape=shape,
                peer=FBGEMM,
                ours=lambda v=values, o=offsets, s=longest: OURS.jagged_to_padded_dense_forward(v, o, [s]),
                theirs=lambda v=values, o=offsets, s=longest: STOCK.jagged_to_padded_dense_forward(v, o, [s]),
                moved_bytes=values.nbytes + dense.nbytes,
            )
        )
        back = Case(
            operator="dense_to_jagged",
            shape=shape,
            peer=FBGEMM,
            ours=lambda d=dense, o=offsets, r=rows: OURS.dense_to_jagged_forward(d, o, r),
            theirs=lambda d=dense, o=offsets, r=rows: STOCK.dense_to_jagged_forward(d, o, r),
            moved_bytes=2 * values.nbytes,
        )
        yield from with_clone(back)
        row_bytes = inner * values.itemsize
        lines = torch.arange(batch) * longest * row_bytes
        yield from with_roofline(back, roofline.stretches(dense, lines, lengths * row_bytes, torch.empty_like(values)))
        if dtype.is_floating_point:
            yield Case(
                operator="jagged_to_padded_dense_backward",
                shape=shape,
                peer=FBGEMM,
                ours=lambda d=dense, o=offsets, r=rows: OURS.jagged_to_padded_dense_backward(d, o, r),
                theirs=lambda d=dense, o=offsets, r=rows: STOCK.jagged_to_padded_dense_backward(d, o, r),
                moved_bytes=2 * values.nbytes,
            )


def _nested() -> Iterator[Case]:
    outer = torch.arange(0, 257 * 8, 8)[:257]
    inner = torch.arange(0, (int(outer[-1]) + 1) * 12, 12)
    values = torch.randn(int(inner[-1]), 32)
    yield from with_clone(
        Case(
            operator="jagged_to_padded_dense",
            shape="K 2, 256 x 10 x 16, D 32 fp32",
            peer=FBGEMM,
            ours=lambda: OURS.jagged_to_padded_dense_forward(values, [outer, inner], [10, 16]),
            theirs=lambda: STOCK.jagged_to_padded_dense_forward(values, [outer, inner], [10, 16]),
            moved_bytes=values.nbytes + 256 * 10 * 16 * 32 * 4,
        )
    )


def cases() -> Iterator[Case]:
    torch.manual_seed(1)
    yield from _sums()
    yield from _moves()
    yield from _nested()
