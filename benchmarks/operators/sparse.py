"""Sparse permutation and bounds check against fbgemm_gpu's CPU kernels, rank-1 gather against PyTorch."""

from collections.abc import Iterator

import torch

from .timing import Case

OURS, STOCK = torch.ops.mxrec, torch.ops.fbgemm
PEER = "fbgemm_gpu CPU"


def _permutations() -> Iterator[Case]:
    for name, features, batch, longest, weighted in (
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
        moved = 2 * (values.nbytes + lengths.nbytes + (weights.nbytes if weighted else 0))
        yield Case(
            name=f"permute_2D {name}",
            peer_name=PEER,
            ours=lambda a=arguments: OURS.permute_2D_sparse_data(*a),
            peer=lambda a=arguments: STOCK.permute_2D_sparse_data(*a),
            moved_bytes=moved,
        )
    lengths = torch.randint(0, 20, (100_000,))
    arguments = (torch.randperm(100_000).int(), lengths, torch.randint(0, 99, (int(lengths.sum()),)), None, None)
    yield Case(
        name="permute_1D T 100000",
        peer_name=PEER,
        ours=lambda: OURS.permute_1D_sparse_data(*arguments),
        peer=lambda: STOCK.permute_1D_sparse_data(*arguments),
        moved_bytes=2 * (arguments[2].nbytes + lengths.nbytes),
    )


def _checks() -> Iterator[Case]:
    warning = torch.zeros(1, dtype=torch.int64)
    for name, tables, batch, dtype in (
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
            name=f"bounds_check_indices {name}",
            peer_name=PEER,
            ours=lambda a=arguments: OURS.bounds_check_indices(*a),
            peer=lambda a=arguments: STOCK.bounds_check_indices(*a),
            moved_bytes=indices.nbytes + offsets.nbytes,
        )


def _gathers() -> Iterator[Case]:
    for length, count in ((20_000, 1_000_000), (1_000_000, 1_000_000), (1000, 1000)):
        x, grad = torch.rand(length), torch.rand(count)
        index = torch.randint(0, length, (count,))
        yield Case(
            name=f"gather_for_rank1 x {length}, n {count}",
            peer_name="torch.index_select",
            ours=lambda x=x, i=index: OURS.gather_for_rank1(x, i),
            peer=lambda x=x, i=index: torch.index_select(x, 0, i),
            moved_bytes=index.nbytes + 4 * count,
        )
        yield Case(
            name=f"index_select_for_rank1_backward x {length}, n {count}",
            peer_name="torch.index_add and two zeros",
            ours=lambda x=x, i=index, g=grad: OURS.index_select_for_rank1_backward(g, x, i),
            peer=lambda x=x, i=index, g=grad: (torch.zeros_like(x).index_add_(0, i, g), torch.zeros_like(i)),
            moved_bytes=2 * index.nbytes + 4 * count + 4 * length,
        )


def cases() -> list[Case]:
    torch.manual_seed(2)
    return [*_permutations(), *_checks(), *_gathers()]
