"""mxrec::hstu_relative."""

import torch
from gr_ops.time_cells import cell_starts, cells_of

LEAST = torch.tensor([-(2**63), 2, 10, 100])


def arguments(device: str, learned: bool = True) -> tuple[object, ...]:
    generator = torch.Generator().manual_seed(3)

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device).requires_grad_(learned)

    buckets = torch.searchsorted(LEAST, cell_starts().double().long().clamp(min=0), right=True) - 1
    buckets[-1] = len(LEAST) - 1
    integers = [[5, 3, 900, 0, 1, 50], [0, 2, 6], [1, 0], [0, 2]]
    times, offsets, contexts, targets = (torch.tensor(x).to(device) for x in integers)
    qkv = leaf(6, 2, 3), leaf(6, 2, 3), leaf(6, 2, 4)
    cells = cells_of(buckets, LEAST).to(device)
    return (*qkv, leaf(7), leaf(4), times, cells, offsets, contexts, targets, 1, 4, 0.1)
