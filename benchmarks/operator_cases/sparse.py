"""Sparse permutation and bounds check beside fbgemm_gpu's CPU kernels, rank-1 gather beside PyTorch."""

from collections.abc import Iterator

import torch

from . import roofline
from .cases import Call, Case, batches_of, side
from .peers import FBGEMM, FEWEST_BYTES, OURS, STOCK, with_copy, with_roofline

TITLE = "Operators on the CPU: permutations, bounds check, rank-1 gather"


def _bytes_alone(permute: torch.Tensor, lengths: torch.Tensor, values: torch.Tensor, result: torch.Tensor) -> Call:
    """Only the values' blocks: the lengths, which have to be read before, and moved too, are left out."""
    sums = lengths.sum(1) * values.itemsize
    return roofline.stretches(values, (sums.cumsum(0) - sums)[permute], sums[permute], result)


def _shuffled(lengths: torch.Tensor) -> torch.Tensor:
    """The same lengths in another order."""
    return lengths.flatten()[torch.randperm(lengths.numel())].view_as(lengths)


def _permutations() -> Iterator[Case]:
    for shape, features, batch, longest, weighted in (
        ("T 26, B 4096, weights", 26, 4096, 20, True),
        ("T 26, B 4096", 26, 4096, 20, False),
        ("T 500, B 64", 500, 64, 20, False),
        ("T 8, B 16", 8, 16, 10, False),
    ):
        lengths = torch.randint(0, longest, (features, batch))
        rows = int(lengths.sum())
        batches = []
        for _ in range(batches_of(8 * rows)):
            values = torch.randint(0, 1_000_000, (rows,))
            weights = torch.rand(rows) if weighted else None
            batches.append((torch.randperm(features).int(), _shuffled(lengths), values, weights, rows))
        case = Case(
            operator="permute_2D_sparse_data",
            shape=shape,
            peer=FBGEMM,
            batches=len(batches),
            ours=side(OURS.permute_2D_sparse_data, batches),
            theirs=side(STOCK.permute_2D_sparse_data, batches),
            moved_bytes=2 * ((12 if weighted else 8) * rows + lengths.nbytes),
        )
        yield from with_copy(case)
        if not weighted and case.moved_bytes > FEWEST_BYTES:
            result = torch.empty(rows, dtype=torch.int64)
            loops = [_bytes_alone(order.long(), given, values, result) for order, given, values, *_ in batches]
            yield from with_roofline(case, loops.__getitem__)
    lengths = torch.randint(0, 20, (100_000,))
    rows = int(lengths.sum())
    batches = [
        (torch.randperm(len(lengths)).int(), _shuffled(lengths), torch.randint(0, 99, (rows,)), None, None)
        for _ in range(batches_of(8 * rows))
    ]
    yield Case(
        operator="permute_1D_sparse_data",
        shape="T 100000",
        peer=FBGEMM,
        batches=len(batches),
        ours=side(OURS.permute_1D_sparse_data, batches),
        theirs=side(STOCK.permute_1D_sparse_data, batches),
        moved_bytes=2 * (8 * rows + lengths.nbytes),
    )


def _gradients_of_permutations() -> Iterator[Case]:
    """Of rows of values: where each feature comes once, the permutation back; of features that come twice, sums."""
    for width, copies in ((1, 0), (64, 0), (64, 13)):
        features, batch = 26, 4096 if width == 1 else 512
        lengths = torch.randint(0, 20, (features, batch))
        rows = int(lengths.sum())
        backward, back, added = [], [], []
        for _ in range(batches_of(4 * width * rows)):
            order = torch.cat([torch.randperm(features), torch.randperm(features)[:copies]])
            given = _shuffled(lengths)
            sums = given.sum(1)
            starts = sums.cumsum(0) - sums
            index = torch.cat([starts[n] + torch.arange(int(sums[n])) for n in order.tolist()])
            grad = torch.rand(len(index), width).squeeze(1)
            backward.append((order.int(), given, grad, rows))
            back.append((order.argsort().int(), given[order], grad, None, rows))
            added.append((grad, index))

        def permuted_back(batch: int, batches: list[tuple[object, ...]] = back) -> Call:
            return lambda: STOCK.permute_2D_sparse_data(*batches[batch])[1]

        def summed(batch: int, batches: list[tuple[torch.Tensor, torch.Tensor]] = added, rows: int = rows) -> Call:
            grad, index = batches[batch]
            return lambda: torch.zeros(rows, *grad.shape[1:]).index_add_(0, index, grad)

        yield Case(
            operator="permute_sparse_data_backward",
            shape=f"T {features}, B {batch}, D {width}" + (f", {copies} twice" if copies else ""),
            peer="torch.index_add and zeros" if copies or width > 1 else f"{FBGEMM}, the permutation back",
            batches=len(backward),
            ours=side(OURS.permute_sparse_data_backward, backward),
            theirs=summed if copies or width > 1 else permuted_back,
            moved_bytes=4 * width * (backward[0][2].shape[0] + rows) + 2 * lengths.nbytes,
        )


def _checks() -> Iterator[Case]:
    warning = torch.zeros(1, dtype=torch.int64)
    for shape, tables, batch, dtype in (
        ("T 26, B 4096, int64", 26, 4096, torch.int64),
        ("T 26, B 4096, int32", 26, 4096, torch.int32),
        ("T 8, B 16, int64", 8, 16, torch.int64),
    ):
        lengths = torch.randint(0, 20, (tables * batch,))
        total = int(lengths.sum())
        rows = torch.full((tables,), 1000)
        batches = []
        for _ in range(batches_of(total * dtype.itemsize)):
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), _shuffled(lengths).cumsum(0)]).to(dtype)
            batches.append((rows, torch.randint(0, 1000, (total,)).to(dtype), offsets, 1, warning))
        yield Case(
            operator="bounds_check_indices",
            shape=shape,
            peer=FBGEMM,
            batches=len(batches),
            ours=side(OURS.bounds_check_indices, batches),
            theirs=side(STOCK.bounds_check_indices, batches),
            moved_bytes=batches[0][1].nbytes + batches[0][2].nbytes,
        )


def _index_select(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.index_select(x, 0, index)  # the same way into PyTorch as ours


def _index_add(grad: torch.Tensor, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros_like(x).index_add_(0, index, grad), torch.zeros_like(index)


def _gathers() -> Iterator[Case]:
    for length, count in ((20_000, 1_000_000), (1_000_000, 1_000_000), (1000, 1000)):
        forward, backward = [], []
        for _ in range(batches_of(8 * count)):
            x, grad = torch.rand(length), torch.rand(count)
            index = torch.randint(0, length, (count,))
            forward.append((x, index))
            backward.append((grad, x, index))
        shape = f"x {length}, n {count}"
        yield Case(
            operator="gather_for_rank1",
            shape=shape,
            peer="aten::index_select",
            batches=len(forward),
            ours=side(OURS.gather_for_rank1, forward),
            theirs=side(_index_select, forward),
            moved_bytes=12 * count,
        )
        yield Case(
            operator="index_select_for_rank1_backward",
            shape=shape,
            peer="torch.index_add and two zeros",
            batches=len(backward),
            ours=side(OURS.index_select_for_rank1_backward, backward),
            theirs=side(_index_add, backward),
            moved_bytes=20 * count + 4 * length,
        )


def cases() -> Iterator[Case]:
    torch.manual_seed(2)
    yield from _permutations()
    yield from _gradients_of_permutations()
    yield from _checks()
    yield from _gathers()
