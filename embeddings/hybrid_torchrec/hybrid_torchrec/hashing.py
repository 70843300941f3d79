"""The hash by which ids are spread over ranks: SplitMix64's finaliser, the same on every device."""

import torch

_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def mix64(ids: torch.Tensor) -> torch.Tensor:
    """Hash of each id, a bijection of 64-bit words; ids int64 of any shape and device, result alike."""
    if ids.dtype != torch.int64:
        raise TypeError(f"ids must be int64, got {ids.dtype}")
    if ids.device.type == "cpu":
        return torch.ops.hybrid_torchrec.mix64(ids)
    return mix64_portable(ids)


def mix64_portable(ids: torch.Tensor) -> torch.Tensor:
    """mix64 in PyTorch's operators."""
    x = ids
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def rank_of(ids: torch.Tensor, world: int) -> torch.Tensor:
    """The rank, in [0, world), that owns each id: mix64(id) as an unsigned number, modulo world; int64 like ids."""
    if world < 1:
        raise ValueError(f"world must be at least 1, got {world}")
    hashed = mix64(ids)
    if world & (world - 1) == 0:
        return hashed & (world - 1)
    # 2^64 = 2 * 2^63: a negative number stands for itself + 2^64. Python's modulo is never negative.
    return (hashed % world + torch.where(hashed < 0, 2**64 % world, 0)) % world


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift to the right."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
