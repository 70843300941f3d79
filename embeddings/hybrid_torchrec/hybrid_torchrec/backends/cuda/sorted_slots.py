"""Elements of a batch sorted by row: for counting sightings, and again for adding up gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SortedSlots:
    """keys (L,) ascending, int32 or int64: table << bits | slot; sources (L,) int64, where each was in the batch."""

    slots: torch.Tensor
    version: int  # of `slots`, should somebody write to it
    keys: torch.Tensor
    sources: torch.Tensor
    bits: int

    def matches(self, slots: torch.Tensor) -> bool:
        return slots is self.slots and slots._version == self.version


def key_type(bits: int, tables: int) -> torch.dtype:
    """int32 where slots < 2^bits fit beside the number of a table; fewer bytes to sort."""
    return torch.int32 if bits + (tables - 1).bit_length() < 31 else torch.int64


def sort(slots: torch.Tensor, bits: int, tables: torch.Tensor | None = None) -> SortedSlots:
    """slots (L,) < 2^bits; tables (L,) in the keys' type: the number of each element's table << bits."""
    keys = slots.to(key_type(bits, 1) if tables is None else tables.dtype)
    return sort_keys(slots, keys if tables is None else keys + tables, bits)


def sort_keys(slots: torch.Tensor, keys: torch.Tensor, bits: int) -> SortedSlots:
    """keys (L,): those of slots, in their order."""
    keys, sources = keys.sort(stable=True)
    return SortedSlots(slots, slots._version, keys, sources, bits)
