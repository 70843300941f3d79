"""PrefetchBatch: one batch between its submission and its update; see prefetch.py."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from hybrid_torchrec.table import RowBatch

from torchrec_embcache.native import distinct


@dataclass(eq=False)
class PrefetchBatch:
    """One batch of one table."""

    submitted: torch.Tensor  # (L,) int64, as they came
    ids: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # (N,) distinct
    slots: torch.Tensor | None = None  # of ids, once all of them are on the device, where the batch keeps them
    admitted: bool = False
    staged: RowBatch | None = None  # fetched rows that are not on the device; None until it is ready
    failure: Exception | None = None
    waited_for_room: bool = False
    only_read: bool = False  # has no update

    @property
    def ready(self) -> bool:
        return self.staged is not None or self.failure is not None

    def is_of(self, ids: torch.Tensor) -> bool:
        """Whether it is the batch of ids (L,), which may come with other repetitions than they were submitted with."""
        if torch.equal(self.submitted, ids):
            return True
        return torch.equal(self.ids if len(self.ids) else distinct(self.submitted), distinct(ids))
