"""Stochastic rounding of float32 to 16 bits in PyTorch's operators: the same bits as csrc/rows/rounding.h."""

import torch

from hybrid_torchrec.hashing import mix64_portable

GAMMA = 0x9E3779B97F4A7C15 - 2**64
# An exponent that makes no normal half; below the second, no bit reaches the drawn ones.
NORMAL, LOWEST = 0x38800000, 87 << 23
INFINITE = 0x7F800000


def mix_pair(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A hash of two int64 numbers, csrc/common/mix.h."""
    return mix64_portable(mix64_portable(a + GAMMA) ^ (b + GAMMA))


def drawn_bits(seed: int, iteration: int, slots: torch.Tensor, width: int) -> torch.Tensor:
    """16 bits for each element of rows of slots (U,); returns (U, width) int64."""
    numbers = torch.tensor([seed, iteration], dtype=torch.int64, device=slots.device)
    keys = mix_pair(mix_pair(numbers[:1], numbers[1:]), slots)
    groups = torch.arange(1, (width + 3) // 4 + 1, device=slots.device)
    words = mix64_portable(keys.unsqueeze(1) + GAMMA * groups)
    parts = [words >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
    return torch.stack(parts, dim=2).flatten(1)[:, :width]


def round_stochastically(values: torch.Tensor, drawn: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """values float32, drawn (drawn_bits) of the same shape; to the upper neighbour as often as the distance says."""
    nearest = values.to(dtype)
    bits = values.view(torch.int32).long() & 0xFFFFFFFF
    magnitude = bits & 0x7FFFFFFF
    if dtype == torch.bfloat16:
        rounded = (bits + drawn) >> 16 & 0xFFFF
    else:
        rounded = (bits >> 16 & 0x8000) | _half(magnitude, drawn)
    result = rounded.to(torch.int16).view(dtype)
    return torch.where(magnitude >= INFINITE, nearest, result)


def _half(magnitude: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    shifted = magnitude + (drawn & 0x1FFF)
    normal = torch.where(shifted >= 0x47800000, 0x7C00, (shifted - 0x38000000) >> 13)
    mantissa = magnitude & 0x7FFFFF | 0x800000
    shift = (126 - (magnitude >> 23)).clamp(14, 39)
    aligned = torch.where(shift >= 16, drawn << (shift - 16).clamp(min=0), drawn >> (16 - shift).clamp(min=0))
    small = torch.where(magnitude < LOWEST, 0, (mantissa + aligned) >> shift)
    return torch.where(magnitude >= NORMAL, normal, small)
