"""Which rows changed, and which ids went, since a version."""

from __future__ import annotations

import torch


class ChangeLog:
    """The version that changed rows get from now on, and ids erased since `recorded_from`, if that is not 0."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.version = 1
        self.recorded_from = 0
        self._erased: list[tuple[int, torch.Tensor]] = []

    def next_version(self) -> int:
        self.version += 1
        if self.recorded_from == 0:
            self.recorded_from = self.version
        return self.version

    def record_erased(self, ids: torch.Tensor) -> None:
        if self.recorded_from > 0:
            self._erased.append((self.version, ids))

    def erased(self, since: int) -> torch.Tensor:
        """Distinct ids, some of which may have come back."""
        parts = [ids for version, ids in self._erased if version >= since]
        return torch.cat([torch.empty(0, dtype=torch.int64, device=self._device), *parts]).unique()

    def forget(self, before: int) -> None:
        if self.recorded_from > 0:
            self.recorded_from = max(self.recorded_from, min(before, self.version))
        self._erased = [(version, ids) for version, ids in self._erased if version >= before]
