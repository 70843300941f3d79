"""Sparse permutation and bounds check beside fbgemm_gpu's CPU kernels, rank-1 gather beside PyTorch."""

from collections.abc import Iterator

import torch

from . import roofline
from .cases import Call, Case
from .peers import FBGEMM, FEWEST_BYTES, OURS, STOCK, with_clone, with_roofline

TITLE = "Operators on the CPU: permutations, bounds check, rank-1 gather"


def _bytes_alone(permute: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor) -> Call:
    """Only the values' blocks: the lengths, which have to be read before, and moved too, are left out."""
    sums = lengths.sum(1) * values.itemsize
    return roofline.stretches(values, (sums.cumsum(0) - sums)[permute], sums[permute], torch.empty_like(values))


def _permutations() -> Iterator[Case]:
    for shape, features, batch, longest, weighted in (
        ("T 26, B 4096, weights", 26, 4096, 20, True),
        ("T 26, B 4096", 26, 4096, 20, False),
        ("T 500, B 64", 500, 64, 20, False),
        ("T 8, B 16", 8, 16, 10, False),
    ):
        lengths = torch.randint(0, longest, (features, batch))
        rows = int(lengths.sum())
        values = torch.randint(0, 1_000_000, (rows,))
        weights = torch.rand(rows) if weighted else None
        permute = torch.randperm(features).int()
        arguments = (permute, lengths, values, weights, rows)
        case = Case(
            operator="permute_2D_sparse_data",
            shape=shape,
            peer=FBGEMM,
            ours=lambda a=arguments: OURS.permute_2D_sparse_data(*a),
            theirs=lambda a=arguments: STOCK.permute_2D_sparse_data(*a),
            moved_bytes=2 * (values.nbytes + lengths.nbytes + (weights.nbytes if weights is not None else 0)),
        )
        yield from with_clone(case)
        if weights is None and case.moved_bytes > FEWEST_BYTES:
            yield from with_roofline(case, _bytes_alone(permute.long(), lengths, values))
    lengths = torch.randint(0, 20, (100_000,))
    arguments = (torch.randperm(100_000).int(), lengths, torch.randint(0, 99, (int(lengths.sum()),)), None, None)
    yield Case(
        operator="permute_1D_sparse_data",
        shape="T 100000",
        peer=FBGEMM,
        ours=lambda: OURS.permute_1D_sparse_data(*arguments),
        theirs=lambda: STOCK.permute_1D_sparse_data(*arguments),
        moved_bytes=2 * (arguments[2].nbytes + lengths.nbytes),
    )


def _checks() -> Iterator[Case]:
    warning = torch.zeros(1, dtype=torch.int64)
    for shape, tables, batch, dtype in (
        ("T 26, B 4096, int64", 26, 4096, torch.int64),
        ("T 26, B 4096, int32", 26, 4096, torch.int32),
        ("T 8, B 16, int64", 8, 16, torch.int64),
    ):
        lengths = torch.randint(0, 20, (tables * batch,))
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(dtype)
        indices = torch.randint(0, 1000, (int(lengths.sum()),)).to(dtype)
        rows = torch.full((tables,), 1000)
        arguments = (rows, indices, offsets, 1, warning)
        yield Case(
            operator="bounds_check_indices",
            shape=shape,
            peer=FBGEMM,
            ours=lambda a=arguments: OURS.bounds_check_indices(*a),
            theirs=lambda a=arguments: STOCK.bounds_check_indices(*a),
            moved_bytes=indices.nbytes + offsets.nbytes,
        )


def _gathers() -> Iterator[Case]:
    for length, count in ((20_000, 1_000_000), (1_000_000, 1_000_000), (1000, 1000)):
        x, grad = torch.rand(length), torch.rand(count)
        index = torch.randint(0, length, (count,))
        shape = f"x {length}, n {count}"
        yield Case(
            operator="gather_for_rank1",
            shape=shape,
            peer="aten::index_select",
            ours=lambda x=x, i=index: OURS.gather_for_rank1(x, i),
            theirs=lambda x=x, i=index: torch.ops.aten.index_select(x, 0, i),  # the same way into PyTorch as ours
            moved_bytes=index.nbytes + 4 * count,
        )
        yield Case(
            operator="index_select_for_rank1_backward",
            shape=shape,
            peer="torch.index_add and two zeros",
            ours=lambda x=x, i=index, g=grad: OURS.index_select_for_rank1_backward(g, x, i),
            theirs=lambda x=x, i=index, g=grad: (torch.zeros_like(x).index_add_(0, i, g), torch.zeros_like(i)),
            moved_bytes=2 * index.nbytes + 4 * count + 4 * length,
        )


def cases() -> Iterator[Case]:
    torch.manual_seed(2)
    yield from _permutations()
    yield from _checks()
    yield from _gathers()
