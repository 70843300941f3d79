"""Several tables in the launches of one: what a collection of tables needs to fill a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import torch

from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.backends.cuda import id_launches, row_launches
from hybrid_torchrec.backends.cuda.counters import DeviceCounters
from hybrid_torchrec.backends.cuda.ids import DeviceIdTable
from hybrid_torchrec.backends.cuda.side_stream import SideStream
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort, sort_keys
from hybrid_torchrec.backends.cuda.table_offsets import StackedDescriptors, TableOffsets

if TYPE_CHECKING:
    from hybrid_torchrec.backends.cuda.backend import CudaBackend

SIDE_STREAM_MIN_IDS = 1 << 16  # ids of a batch; fewer are sorted sooner than the host has changed streams


class CudaGroup:
    """Tables of one device and of equal kind; base.BackendGroup."""

    def __init__(self, backends: Sequence[CudaBackend]) -> None:
        self._backends = list(backends)
        self._known = [cast(DeviceIdTable, backend.device_ids) for backend in backends]  # kind says that they have some
        self._config = backends[0].config
        device = backends[0].storage.weights.device
        counters, self._side_stream = DeviceCounters(len(backends), device), SideStream(device)
        for row, known in enumerate(self._known):
            known.index.share_counters(counters, row, self._side_stream)
        counters.synchronize()
        self._numbers = torch.stack([cast(torch.Tensor, backend.numbers) for backend in backends])
        self._ids, self._rows = StackedDescriptors(), StackedDescriptors()
        self._elements, self._bags = TableOffsets(device), TableOffsets(device)
        self._sorted: SortedSlots | None = None
        self._taken: torch.Tensor | None = None  # the addresses of the tables, of which `_side_stream` has been told

    def look_up(self, ids: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        per_table = self._elements.update(lengths)
        parts = self._ids.stack([known.index.parts for known in self._known])
        return id_launches.find(ids, parts, per_table, count_hits=True, clamp=True)

    def can_insert(self, lengths: Sequence[int]) -> bool:
        version = self._known[0].index.version()
        return all(
            known.index.version() == version and known.simple and backend.has_room(length)
            for backend, known, length in zip(self._backends, self._known, lengths, strict=True)
        )

    def insert(self, ids: torch.Tensor, lengths: Sequence[int], step: int) -> torch.Tensor:
        per_table = self._elements.update(lengths)
        indices = [known.index for known in self._known]
        for backend, index, length in zip(self._backends, indices, lengths, strict=True):
            index.reserve_keys(length)
            index.reserve(length)
            backend.storage.grow(index.capacity)
        parts = self._row_parts()
        slots, new_counts = id_launches.find_or_insert(ids, parts, per_table, count_hits=True)
        bits = self._bits()
        placed = id_launches.allocate_slots(ids, slots, new_counts, parts, step, indices[0].version(), bits, per_table)
        if parts is not self._taken:
            self._side_stream.record_use(parts, *(index.records for index in indices))
            self._taken = parts
        large = len(ids) >= SIDE_STREAM_MIN_IDS
        with self._side_stream.fork(placed.keys) if large else nullcontext():  # no lookup needs it
            self._sorted = sort_keys(slots, placed.keys, bits)
            id_launches.count(self._sorted, parts, step)
        for index, length in zip(indices, lengths, strict=True):
            index.prefetch_counters(length)
        row_launches.start(
            self._config,
            self._numbers,
            parts,
            placed.ids,
            placed.slots,
            per_table,
            counted=True,
        )
        return slots

    def gather(self, slots: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        per_table = self._elements.update(lengths)
        return row_launches.gather(self._config, self._row_parts(), slots, per_table)

    def pool(
        self,
        slots: torch.Tensor,
        offsets: torch.Tensor,
        bags: Sequence[int],
        mean: bool,
        samples: torch.Tensor | None,
    ) -> torch.Tensor:
        per_table = self._bags.update(bags)
        return row_launches.pool(self._config, self._row_parts(), slots, offsets, mean, samples, per_table)

    def sample_weight_gradients(
        self,
        slots: torch.Tensor,
        lengths: Sequence[int],
        offsets: torch.Tensor,
        gradients: torch.Tensor,
        mean: bool,
    ) -> torch.Tensor:
        per_table = self._elements.update(lengths)
        return row_launches.factor_gradients(
            self._config, self._row_parts(), slots, offsets, gradients, mean, per_table
        )

    def update(self, gradient: Gradient, lengths: Sequence[int], lr: float, iteration: int) -> None:
        slots, per_table = gradient.slots, self._elements.update(lengths)
        sorted_slots = self._sorted
        if sorted_slots is not None and sorted_slots.matches(slots):
            self._side_stream.join(sorted_slots.keys, sorted_slots.sources)
        else:
            bits = self._bits()
            sorted_slots = sort(slots, bits, per_table.keys(bits))
        row_launches.update(
            self._config,
            self._row_parts(),
            sorted_slots,
            gradient,
            lr,
            iteration,
            self._known[0].index.version(),
        )

    def _row_parts(self) -> torch.Tensor:
        return self._rows.stack([backend.parts() for backend in self._backends])

    def _bits(self) -> int:
        return max(backend.storage.capacity for backend in self._backends).bit_length()
