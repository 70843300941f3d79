"""IdTable whose ids are looked up on a CUDA device."""

from __future__ import annotations

import torch

from hybrid_torchrec.backends.cuda.index import DeviceIndex
from hybrid_torchrec.backends.cuda.insertion import NewRows, PendingInsertion
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort_keys
from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.table_config import TableConfig


class DeviceIdTable(IdTable):
    """As IdTable; where every id is admitted, ids never leave the device."""

    index: DeviceIndex

    def __init__(self, config: TableConfig, device: torch.device) -> None:
        self.device = device
        super().__init__(config)
        self.admits_all = self._admission.sightings <= 1 and self._admission.probability >= 1.0
        # Nothing happens to other rows when ids come.
        self.simple = self.admits_all and self._decay == 1.0 and self.expires_every is None

    def _make_index(self, capacity: int) -> DeviceIndex:
        return DeviceIndex(capacity, self._config.max_rows, self.device)

    @property
    def insertions(self) -> int:
        """Those that the host knows of, and those that the device has counted."""
        return self._insertions + self.index.insertions()

    @insertions.setter
    def insertions(self, value: int) -> None:
        self._insertions = value - self.index.insertions()

    @property
    def hits(self) -> int:
        return self._hits + self.index.hits()

    @hits.setter
    def hits(self, value: int) -> None:
        self._hits = value - self.index.hits()

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        return self.index.look_up(ids)

    def insert(self, pending: PendingInsertion, new: int, step: int) -> tuple[NewRows, SortedSlots]:
        """The rows of a batch that has `new` at most, for which there is room, and its slots; counts its sightings."""
        self.index.reserve(new)
        rows = self.index.allocate_slots(pending, step)
        self.index.prefetch_counters(len(pending.ids))
        sorted_slots = sort_keys(pending.slots, rows.keys, rows.bits)
        return rows, self.index.count_sorted(sorted_slots, step, self._decay)

    def cancel(self, pending: PendingInsertion, step: int) -> None:
        """Its ids get no rows; the sightings of those that have some are counted."""
        self.index.cancel(pending)
        self.index.touch(pending.slots, step, self._decay)
