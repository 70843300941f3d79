"""PrefetchBatch: one batch between its submission and its update; see prefetch.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.native import distinct

NONE = torch.empty(0, dtype=torch.int64)


@dataclass(eq=False)
class PrefetchBatch:
    """One batch of one table."""

    submitted: torch.Tensor  # (L,) int64, as they came
    ids: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # (N,) distinct
    # Of ids (N,), where the batch keeps its rows, or -1; and the positions (K,) of the latter.
    slots: torch.Tensor = field(default_factory=lambda: NONE)
    absent: torch.Tensor = field(default_factory=lambda: NONE)
    found: bool = False  # whether both are known, but for what has come since
    admitted: bool = False
    staged: RowBatch | None = None  # fetched rows that are not on the device; None until it is ready
    failure: Exception | None = None
    waited_for_room: bool = False
    only_read: bool = False  # has no update

    @property
    def ready(self) -> bool:
        return self.staged is not None or self.failure is not None

    def find(self, find: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Asks for the slots that are not known yet, with the table's find."""
        if not self.found:
            self.slots = find(self.ids)
            self.absent = (self.slots < 0).nonzero().squeeze(1)
            self.found = True
        elif len(self.absent):
            slots = find(self.ids[self.absent])
            self.slots[self.absent] = slots
            self.absent = self.absent[slots < 0]

    def forget_slots(self) -> None:
        self.slots = self.absent = NONE
        self.found = False

    def is_of(self, ids: torch.Tensor) -> bool:
        """Whether it is the batch of ids (L,), which may come with other repetitions than they were submitted with."""
        if torch.equal(self.submitted, ids):
            return True
        return torch.equal(self.ids if len(self.ids) else distinct(self.submitted), distinct(ids))
