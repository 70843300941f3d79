"""A batch of ids that is being inserted into a table, and the rows that it made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hybrid_torchrec.backends.cuda import id_launches
from hybrid_torchrec.backends.cuda.layout import constants

(NEW,) = constants("NEW")


@dataclass(frozen=True)
class PendingInsertion:
    """A batch of ids between ``find_or_insert`` and ``allocate_slots``."""

    ids: torch.Tensor  # (L,)
    slots: torch.Tensor  # (L,): the slot, or -2 - bucket where there is none yet
    new_counts: id_launches.NewIdCounts

    def count(self) -> int:
        """Distinct ids without a row; waits for the device."""
        return int(self.new_counts.per_program.sum())


@dataclass(frozen=True)
class NewRows:
    """Rows that `allocate_slots` made: the first counters[NEW] of slots (L,) and ids (L,).

    keys (L,): those of the batch, of slots < 2^bits.
    """

    ids: torch.Tensor
    slots: torch.Tensor
    counters: torch.Tensor
    keys: torch.Tensor
    bits: int

    def count(self) -> int:
        """Waits for the device."""
        return int(self.counters[NEW])
