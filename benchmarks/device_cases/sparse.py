"""Sums, jagged layouts, permutations and gathers."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .case import Case

MXREC = torch.ops.mxrec


def sums(small: bool) -> Iterator[Case]:
    count = 10_000 if small else 1_000_000
    x = torch.randint(0, 20, (count,))
    yield Case(
        operator="asynchronous_complete_cumsum",
        shape=f"{count:,} int64",
        call=MXREC.asynchronous_complete_cumsum,
        inputs=(x,),
        moved_bytes=2 * x.nbytes,
    )


def jagged(small: bool) -> Iterator[Case]:
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


def sparse(small: bool) -> Iterator[Case]:
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
    yield gradient(lengths)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])
    yield Case(
        operator="bounds_check_indices",
        shape=shape,
        call=lambda r, i, o, w: (MXREC.bounds_check_indices(r, i, o, 1, w), i)[1],
        inputs=(torch.full((tables,), 1000), values, offsets, torch.zeros(1, dtype=torch.int64)),
        moved_bytes=values.nbytes + offsets.nbytes,
    )


def gradient(lengths: torch.Tensor) -> Case:
    """Every second feature has two copies, whose gradients are added up. A generator of its own leaves other cases
    their numbers."""
    tables, batch = lengths.shape
    generator = torch.Generator().manual_seed(0)
    copies = torch.cat([torch.arange(tables), torch.arange(0, tables, 2)])
    permute = copies[torch.randperm(len(copies), generator=generator)]
    count = int(lengths.sum())
    grad = torch.rand(int(lengths[permute].sum()), generator=generator)
    return Case(
        operator="permute_sparse_data_backward",
        shape=f"T {tables}, P {len(permute)}, B {batch}, {count:,} fp32",
        call=lambda p, l, g: MXREC.permute_sparse_data_backward(p, l, g, count),
        inputs=(permute, lengths, grad),
        moved_bytes=grad.nbytes + grad.itemsize * count,  # the lengths are summed by PyTorch's operator
    )


def gathers(small: bool) -> Iterator[Case]:
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
