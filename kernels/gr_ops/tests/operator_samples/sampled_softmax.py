"""mxrec::sampled_softmax."""

import torch


def arguments(device: str, learned: bool = True) -> tuple[object, ...]:
    generator = torch.Generator().manual_seed(4)

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device).requires_grad_(learned)

    targets, place = torch.tensor([2, 0, 2, 5, 1]).to(device), torch.tensor([0, 1, 3, 4, 6]).to(device)
    negatives = torch.tensor([[1, 2, 2], [5, 0, 6], [3, 3, 1]]).to(device)
    correction = torch.randn(3, 3, generator=generator).to(device)
    return leaf(5, 4), leaf(7, 4), targets, negatives, correction, place, 3, 0.5, 1e-6
