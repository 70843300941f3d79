"""A batch of ids on its way into a table, and the rows that it made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hybrid_torchrec.backends.cuda import launch
from hybrid_torchrec.backends.cuda.layout import words

(NEW,) = words("NEW")


@dataclass(frozen=True)
class Sighting:
    """A batch of ids between ``see`` and ``place``."""

    ids: torch.Tensor  # (L,)
    slots: torch.Tensor  # (L,): the slot, or -2 - cell where there is none yet
    firsts: launch.Firsts

    def count(self) -> int:
        """Distinct ids without a row; waits for the device."""
        return int(self.firsts.sums.sum())


@dataclass(frozen=True)
class NewRows:
    """Rows that `place` made: the first counters[NEW] of slots (L,) and ids (L,). keys (L,): those of the batch, of
    slots < 2^bits."""

    ids: torch.Tensor
    slots: torch.Tensor
    counters: torch.Tensor
    keys: torch.Tensor
    bits: int

    def count(self) -> int:
        """Waits for the device."""
        return int(self.counters[NEW])
