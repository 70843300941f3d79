"""Elements of a batch sorted by row: for counting sightings, and again for adding up gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Order:
    """keys (L,) ascending, int32 or int64: table << bits | slot; sources (L,) int64, where each was in the batch."""

    slots: torch.Tensor
    version: int  # of `slots`, should somebody write to it
    keys: torch.Tensor
    sources: torch.Tensor
    bits: int

    def is_of(self, slots: torch.Tensor) -> bool:
        return slots is self.slots and slots._version == self.version


def sort(slots: torch.Tensor, bits: int, tables: torch.Tensor | None = None) -> Order:
    """slots (L,) < 2^bits; tables (L,) in the keys' type: the number of each element's table << bits."""
    dtype = (torch.int32 if bits < 31 else torch.int64) if tables is None else tables.dtype
    keys = slots.to(dtype)
    if tables is not None:
        keys = keys + tables
    keys, sources = keys.sort(stable=True)
    return Order(slots, slots._version, keys, sources, bits)
