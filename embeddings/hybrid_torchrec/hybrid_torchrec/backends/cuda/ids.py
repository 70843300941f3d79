"""IdTable whose ids are looked up on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hybrid_torchrec.backends.cuda.index import DeviceIndex
from hybrid_torchrec.backends.cuda.insertion import NewRows
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort_keys
from hybrid_torchrec.backends.ids import IdTable
from hybrid_torchrec.errors import TableFull
from hybrid_torchrec.policies import TTL
from hybrid_torchrec.table_config import TableConfig


class DeviceIdTable(IdTable):
    """As IdTable; ids that every batch admits never leave the device."""

    def __init__(self, config: TableConfig, device: torch.device) -> None:
        self.device = device
        super().__init__(config)
        self.admits_all = self._admission.sightings <= 1 and self._admission.probability >= 1.0
        # Nothing happens to other rows when ids come.
        self.simple = self.admits_all and self._decay == 1.0 and not isinstance(config.eviction, TTL)

    def _make_index(self, capacity: int) -> DeviceIndex:
        return DeviceIndex(capacity, self._config.max_rows, self.device)

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        return self.index.look_up(ids)

    def assign(
        self, ids: torch.Tensor, step: int, make_room: Callable[[int, torch.Tensor], None]
    ) -> tuple[SortedSlots, NewRows]:
        """Slots of ids (L,), also sorted, and the rows that were made; a sighting of each is counted.

        make_room(n, slots): of n rows; may raise TableFull.
        """
        room = self.index.has_room(len(ids))
        pending = self.index.find_or_insert(ids)
        new = len(ids) if room else pending.count()
        if not room and new:
            try:
                make_room(new, pending.slots)
            except TableFull:
                self.index.cancel(pending)
                self.index.touch(pending.slots, step, self._decay)
                raise
        self.index.reserve(new)
        rows = self.index.allocate_slots(pending, step)
        self.index.prefetch_counters(len(ids))
        sorted_slots = sort_keys(pending.slots, rows.keys, rows.bits)
        return self.index.count_sorted(sorted_slots, step, self._decay), rows

    def counted(self) -> tuple[int, int]:
        return self.index.insertions(), self._hits + self.index.hits()
