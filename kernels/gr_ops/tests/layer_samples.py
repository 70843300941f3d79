"""Arguments for one call of each operator around HSTU's attention."""

from collections.abc import Callable

import torch


def _leaf(device: str, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def _keep(device: str) -> torch.Tensor:
    return (torch.arange(30).view(6, 5) % 3 > 0).to(device)


def _offsets(device: str) -> torch.Tensor:
    return torch.tensor([0, 2, 5, 6]).to(device)


def _buckets(device: str) -> torch.Tensor:
    return (torch.arange(27).view(3, 3, 3) % 4).short().to(device)


LAYER: dict[str, Callable[[str], tuple[object, ...]]] = {
    "hstu_projection": lambda d: (_leaf(d, 6, 4), _leaf(d, 4, 8), [5, 3], 1e-6),
    "hstu_projection_backward": lambda d: (
        [_leaf(d, 6, 5).detach(), _leaf(d, 6, 3).detach()],
        _leaf(d, 6, 4).detach(),
        _leaf(d, 4, 8).detach(),
        [5, 3],
        1e-6,
    ),
    "hstu_gated_output": lambda d: (
        _leaf(d, 6, 5),
        _leaf(d, 6, 5),
        _leaf(d, 6, 4),
        _leaf(d, 4, 5),
        _leaf(d, 4),
        _keep(d),
        1.5,
        1e-6,
    ),
    "hstu_gated_output_backward": lambda d: (
        _leaf(d, 6, 4).detach(),
        _leaf(d, 6, 5).detach(),
        _leaf(d, 6, 5).detach(),
        _leaf(d, 4, 5).detach(),
        _keep(d),
        1.5,
        1e-6,
    ),
    "hstu_keep": lambda d: (torch.zeros(6, 5).to(d), 0.4, 2**40 + 7),
}
# Of the relative bias as a tensor: NPUs have hstu_relative.
BIAS: dict[str, Callable[[str], tuple[object, ...]]] = {
    "hstu_time_buckets": lambda d: (
        torch.tensor([3, 40, 5, 6, 70, 8]).to(d),
        _offsets(d),
        torch.tensor([0, 2, 10, 30]).to(d),
        3,
        1,
    ),
    "hstu_relative_bias": lambda d: (
        _leaf(d, 5),
        _leaf(d, 4),
        _buckets(d),
        _offsets(d),
        torch.tensor([2, 2, 1]).to(d),
        1,
    ),
    "hstu_relative_bias_backward": lambda d: (
        _leaf(d, 3, 1, 3, 3).detach(),
        _leaf(d, 5).detach(),
        _leaf(d, 4).detach(),
        _buckets(d),
        _offsets(d),
        torch.tensor([2, 2, 1]).to(d),
        1,
    ),
}
