"""IdTable whose ids are looked up on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hybrid_torchrec.backends.cuda.index import DeviceIndex
from hybrid_torchrec.backends.cuda.insertion import NewRows
from hybrid_torchrec.backends.cuda.sorted_slots import Order, sort_keys
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
    ) -> tuple[Order, NewRows]:
        """Slots of ids (L,), also sorted, and the rows that were made; a sighting of each is counted.

        make_room(n, slots): of n rows; may raise TableFull.
        """
        room = self.index.has_room(len(ids))
        sighting = self.index.see(ids)
        new = len(ids) if room else sighting.count()
        if not room and new:
            try:
                make_room(new, sighting.slots)
            except TableFull:
                self.index.withdraw(sighting)
                self.index.touch(sighting.slots, step, self._decay)
                raise
        self.index.reserve(new)
        rows = self.index.place(sighting, step)
        self.index.look_ahead(len(ids))
        order = sort_keys(sighting.slots, rows.keys, rows.bits)
        return self.index.count_sorted(order, step, self._decay), rows

    def counted(self) -> tuple[int, int]:
        return self.index.insertions(), self._hits + self.index.hits()
