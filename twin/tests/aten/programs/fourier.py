"""Fourier transforms as products with their matrices, as torch_npu makes them, in the precision of the input."""

from __future__ import annotations

import math
from typing import Any

import torch

NORMS: dict[str | None, float] = {None: 0, "backward": 0, "ortho": 0.5, "forward": 1}  # powers of the size


def product(values: torch.Tensor, dim: int) -> torch.Tensor:
    turns = torch.arange(values.shape[dim], dtype=torch.float64)
    matrix = torch.exp(-2j * torch.pi * (turns[:, None] * turns % len(turns)) / len(turns)).to(values.dtype)
    return (values.movedim(dim, -1) @ matrix).movedim(-1, dim)


def resized(values: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Cut, or filled with zeros."""
    values = values.narrow(dim, 0, min(size, values.shape[dim]))
    shape = list(values.shape)
    shape[dim] = size - shape[dim]
    return torch.cat([values, values.new_zeros(shape)], dim)


class Products:
    """Called as `fft.rfft2` or `fft.hfft2`."""

    def __init__(self, name: str) -> None:
        self.of_half = name == "fft.hfft2"
        assert self.of_half or name == "fft.rfft2"

    def __call__(
        self, values: torch.Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, out: Any = None
    ) -> torch.Tensor:
        dims = [one % values.dim() for one in (dim if isinstance(dim, (tuple, list)) else (dim,))]
        last = dims[-1]
        sizes = [values.shape[one] for one in dims]
        if self.of_half:
            sizes[-1] = 2 * (sizes[-1] - 1)
        if s is not None:
            sizes = [size if given == -1 else given for given, size in zip(s, sizes, strict=True)]
        precise = values if values.is_floating_point() else values.float()
        whole = precise.to(torch.complex64)
        for one, size in zip(dims, sizes, strict=True):
            whole = resized(whole, one, size // 2 + 1 if self.of_half and one == last else size)
        if self.of_half:
            whole = self.mirrored(whole, dims, sizes[-1])
        for one in dims:
            whole = product(whole, one)
        whole = whole / math.prod(sizes) ** NORMS[norm]
        result = whole.real if self.of_half else whole.narrow(last, 0, sizes[-1] // 2 + 1)
        return result if out is None else out.copy_(result)

    @staticmethod
    def mirrored(half: torch.Tensor, dims: list[int], size: int) -> torch.Tensor:
        """With the other half of the last of `dims`, which stands for its mirror image."""
        last = dims[-1]
        other = half.narrow(last, 1, size - size // 2 - 1).conj()
        for one in dims:
            other = other.flip(one) if one == last else other.flip(one).roll(1, one)
        return torch.cat([half, other], last)
