"""What is known of each slot, in device memory."""

import torch

from hybrid_torchrec.backends.cuda.layout import constants

FREE_STEP, RECORD, ID, SHOWS, LAST, VERSION = constants("FREE_STEP", "RECORD", "ID", "SHOWS", "LAST", "VERSION")


class SlotRecords:
    """records (C, RECORD) int64 of C slots, and a list `free` (C,) with room for all of them.

    ids, shows, clicks, last, versions (C,) each are parts of the records; last is FREE_STEP where the slot has no row.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        self._device = device
        self.records = torch.empty((0, RECORD), dtype=torch.int64, device=device)
        self.free = torch.empty(0, dtype=torch.int64, device=device)
        self.grow(capacity)

    @property
    def capacity(self) -> int:
        return self.records.shape[0]

    @property
    def ids(self) -> torch.Tensor:
        return self.records[:, ID]

    @property
    def shows(self) -> torch.Tensor:
        return self.records.view(torch.float32)[:, 2 * SHOWS]

    @property
    def clicks(self) -> torch.Tensor:
        return self.records.view(torch.float32)[:, 2 * SHOWS + 1]

    @property
    def last(self) -> torch.Tensor:
        return self.records[:, LAST]

    @property
    def versions(self) -> torch.Tensor:
        return self.records[:, VERSION]

    def grow(self, capacity: int) -> None:
        """Every new tensor is made before an old one is given up."""
        records = torch.zeros((capacity, RECORD), dtype=torch.int64, device=self._device)
        records[:, LAST] = FREE_STEP
        records[: self.capacity] = self.records
        free = torch.zeros(capacity, dtype=torch.int64, device=self._device)
        free[: self.capacity] = self.free
        self.records, self.free = records, free

    def bytes(self) -> int:
        return self.records.nbytes + self.free.nbytes

    def infos(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids, shows, clicks, last of slots (R,)."""
        return self.ids[slots], self.shows[slots], self.clicks[slots], self.last[slots]

    def decay(self, slots: torch.Tensor, step: int, decay: float) -> None:
        """Shows and clicks of distinct slots (R,) as of `step`."""
        _, shows, clicks, last = self.infos(slots)
        old = last < step
        factor = torch.pow(decay, (step - last).clamp(min=0).double())
        self.shows[slots] = torch.where(old, (shows.double() * factor).float(), shows)
        self.clicks[slots] = torch.where(old, (clicks.double() * factor).float(), clicks)
        self.last[slots] = torch.where(old, step, last)
