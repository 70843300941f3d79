"""Jagged to padded and back, and the prefix sums, beside fbgemm_gpu's CPU kernels."""

from collections.abc import Iterator

import torch

from . import roofline
from .cases import Case, batches_of, side
from .peers import FBGEMM, OURS, STOCK, with_copy, with_roofline

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
        first = torch.randint(0, 20, shape).to(dtype)
        batches = [(first,)]
        batches += [(torch.randint(0, 20, shape).to(dtype),) for _ in range(batches_of(first.nbytes) - 1)]
        yield Case(
            operator="complete_cumsum",
            shape=shape_name,
            peer=FBGEMM,
            batches=len(batches),
            ours=side(OURS.asynchronous_complete_cumsum, batches),
            theirs=side(STOCK.asynchronous_complete_cumsum, batches),
            moved_bytes=2 * first.nbytes,
        )


def _moves() -> Iterator[Case]:
    for shape, batch, longest, inner, dtype in (
        ("B 1024, S 200, D 64 fp32", 1024, 200, 64, torch.float32),
        ("B 512, S 100, D 128 fp16", 512, 100, 128, torch.float16),
        ("B 4096, S 200, int64 ids", 4096, 200, 1, torch.int64),
        ("B 32, S 50, D 32 fp32", 32, 50, 32, torch.float32),
    ):
        lengths = torch.randint(0, longest + 1, (batch,))
        rows = int(lengths.sum())
        count = batches_of(rows * inner * dtype.itemsize)
        orders = [lengths[torch.randperm(batch)] for _ in range(count)]  # as many rows in each batch
        offsets = [[torch.cat([torch.zeros(1, dtype=torch.int64), order.cumsum(0)])] for order in orders]
        values = [torch.randint(0, 100, (rows, inner)).to(dtype) for _ in range(count)]
        dense = [OURS.jagged_to_padded_dense(v, o, [longest]) for v, o in zip(values, offsets)]
        padded = [(v, o, [longest]) for v, o in zip(values, offsets)]
        jagged = [(d, o, rows) for d, o in zip(dense, offsets)]
        yield from with_copy(
            Case(
                operator="jagged_to_padded_dense",
                shape=shape,
                peer=FBGEMM,
                batches=count,
                ours=side(OURS.jagged_to_padded_dense_forward, padded),
                theirs=side(STOCK.jagged_to_padded_dense_forward, padded),
                moved_bytes=values[0].nbytes + dense[0].nbytes,
            )
        )
        back = Case(
            operator="dense_to_jagged",
            shape=shape,
            peer=FBGEMM,
            batches=count,
            ours=side(OURS.dense_to_jagged_forward, jagged),
            theirs=side(STOCK.dense_to_jagged_forward, jagged),
            moved_bytes=2 * values[0].nbytes,
        )
        yield from with_copy(back)
        row_bytes = inner * dtype.itemsize
        lines = torch.arange(batch) * longest * row_bytes
        result = torch.empty_like(values[0])
        loops = [roofline.stretches(d, lines, order * row_bytes, result) for d, order in zip(dense, orders)]
        yield from with_roofline(back, loops.__getitem__)
        if dtype.is_floating_point:
            yield Case(
                operator="jagged_to_padded_dense_backward",
                shape=shape,
                peer=FBGEMM,
                batches=count,
                ours=side(OURS.jagged_to_padded_dense_backward, jagged),
                theirs=side(STOCK.jagged_to_padded_dense_backward, jagged),
                moved_bytes=2 * values[0].nbytes,
            )


def _nested() -> Iterator[Case]:
    outer = torch.arange(0, 257 * 8, 8)[:257]
    inner = torch.arange(0, (int(outer[-1]) + 1) * 12, 12)
    first = torch.randn(int(inner[-1]), 32)
    values = [first, *(torch.randn_like(first) for _ in range(batches_of(first.nbytes) - 1))]
    batches = [(v, [outer, inner], [10, 16]) for v in values]
    yield from with_copy(
        Case(
            operator="jagged_to_padded_dense",
            shape="K 2, 256 x 10 x 16, D 32 fp32",
            peer=FBGEMM,
            batches=len(batches),
            ours=side(OURS.jagged_to_padded_dense_forward, batches),
            theirs=side(STOCK.jagged_to_padded_dense_forward, batches),
            moved_bytes=first.nbytes + 256 * 10 * 16 * 32 * 4,
        )
    )


def cases() -> Iterator[Case]:
    torch.manual_seed(1)
    yield from _sums()
    yield from _moves()
    yield from _nested()
