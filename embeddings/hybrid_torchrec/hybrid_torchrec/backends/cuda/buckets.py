"""The buckets of the hash map of ids (map_kernels.py)."""

from __future__ import annotations

import torch

from hybrid_torchrec.backends.cuda import id_launches
from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.backends.cuda.map_kernels import BLOCK

(EMPTY,) = constants("EMPTY")
# A map is built anew when more than a half of its buckets have keys, and then has three buckets a row at least.
FULLEST, ROOMY = 2, 3
SMALLEST = 64
PADDING = BLOCK  # words behind an array that lanes without work may swap


class Buckets:
    """buckets (C + 1 + PADDING, 2) int64: key and slot; C is a power of two, and the last one is EMPTY's own."""

    def __init__(self, rows: int, device: torch.device) -> None:
        count = max(SMALLEST, 1 << max(ROOMY * rows - 1, 1).bit_length())
        self.tensor = torch.full((count + 1 + PADDING, 2), -1, dtype=torch.int64, device=device)
        self.tensor[:, 0] = EMPTY
        self.mask = count - 1

    def overloaded(self, keys: int) -> bool:
        """Whether a map with so many keys is to be built anew."""
        return FULLEST * keys > self.mask + 1

    def copied(self, rows: int, moved: torch.Tensor) -> Buckets:
        """A map with room for `rows` and the keys that have slots; moved (1,) counts them."""
        made = Buckets(rows, self.tensor.device)
        id_launches.rehash(self.tensor, self.mask + 2, made.tensor, made.mask, moved)
        return made
