"""Several tables in the launches of one: what a collection of tables needs to fill a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import cast

import torch

from hybrid_torchrec.backends import torch_rows
from hybrid_torchrec.backends.cuda import backend, launch
from hybrid_torchrec.backends.cuda.backend import CudaBackend
from hybrid_torchrec.backends.cuda.counters import DeviceCounters
from hybrid_torchrec.backends.cuda.ids import DeviceIdTable
from hybrid_torchrec.backends.cuda.side_stream import SideStream
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort, sort_keys
from hybrid_torchrec.backends.cuda.table_offsets import StackedDescriptors, TableOffsets
from hybrid_torchrec.table.hash_table import HashTable

SIDE_STREAM_MIN_IDS = 1 << 16  # ids of a batch; fewer are sorted sooner than the host has changed streams


class TableGroup:
    """Tables of one device whose rows, optimizers and kinds of initialisers are alike.

    Elements of all arguments are in the order of the tables, lengths[t] of table t. Results are those of the tables'
    own methods, to which a call goes that needs more than they share: eviction, growth of rows, admission by count,
    watchers of changes, gradients that wait, tables that have not taken the same number of steps.
    """

    def __init__(self, tables: Sequence[HashTable]) -> None:
        first = tables[0] if tables else None
        if first is None or any(not alike(table, first) for table in tables):
            raise ValueError("TableGroup: tables must be on one CUDA device and alike but for name, seed and sizes")
        self.tables = list(tables)
        device_counters, self._side_stream = DeviceCounters(len(tables), first.device), SideStream(first.device)
        for row, table in enumerate(tables):
            table._ids.index.share_counters(device_counters, row, self._side_stream)
        device_counters.synchronize()
        self._numbers = torch.stack([cast(torch.Tensor, _backend(table).numbers) for table in tables])
        self._ids, self._rows = StackedDescriptors(), StackedDescriptors()
        self._elements, self._bags = TableOffsets(first.device), TableOffsets(first.device)
        self._sorted: SortedSlots | None = None
        self._taken: torch.Tensor | None = None  # the addresses of the tables, of which `_side_stream` has been told

    def assign(self, ids: torch.Tensor, lengths: Sequence[int], *, train: bool) -> torch.Tensor:
        """HashTable.assign of each; (L,) int64, every table's own slots."""
        first = self.tables[0]
        ids = ids.detach().to(first.device)
        with self._locked():
            together = not train or self._together(lengths)
            if not together or len(ids) == 0:
                parts = zip(self.tables, ids.split(list(lengths)), strict=True)
                return torch.cat([table.assign(part, train=train) for table, part in parts])
            self._elements.update(lengths)
            for table, length in zip(self.tables, lengths, strict=True):
                table.lookups += length
            return self._see(ids, lengths) if train else self._find(ids)

    def lookup(self, slots: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """HashTable.lookup of each; (L, D) float32."""
        per_table = self._elements.update(lengths)
        return backend.gather(self.tables[0].config, self._row_parts(), slots, per_table.starts, per_table.longest)

    def lookup_pooled(
        self,
        slots: torch.Tensor,
        offsets: torch.Tensor,
        bags: Sequence[int],
        pooling: str,
        weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """HashTable.lookup_pooled of each: offsets (B + 1,) int64 of the bags of all tables, bags[t] of table t;
        (B, D) float32."""
        first = self.tables[0]
        mean, per_table = first._mean(pooling), self._bags.update(bags)
        return backend.pool(
            first.config, self._row_parts(), slots, offsets, mean, weights, per_table.starts, per_table.longest
        )

    def sample_weight_gradients(
        self, slots: torch.Tensor, lengths: Sequence[int], offsets: torch.Tensor, grads: torch.Tensor, pooling: str
    ) -> torch.Tensor:
        """Gradient (L,) float32 of lookup_pooled's weights, for grads (B, D) of its result."""
        first, per_table = self.tables[0], self._elements.update(lengths)
        return backend.factor_gradients(
            first.config,
            self._row_parts(),
            slots,
            offsets,
            grads,
            first._mean(pooling),
            per_table.starts,
            per_table.longest,
        )

    def update(
        self,
        slots: torch.Tensor,
        lengths: Sequence[int],
        grads: torch.Tensor,
        *,
        offsets: torch.Tensor | None = None,
        bags: Sequence[int] = (),
        pooling: str = "sum",
        weights: torch.Tensor | None = None,
    ) -> None:
        """HashTable.update of each; grads (L, D), or (B, D) of pooled bags."""
        first, mean = self.tables[0], self.tables[0]._mean(pooling)
        with self._locked():
            alone = any(table.before_change or not table._pending.empty for table in self.tables)
            if alone or len({(t.updates, t.learning_rate, t._ids.index.version()) for t in self.tables}) > 1:
                self._update_each(slots, lengths, grads, offsets, bags, pooling, weights)
                return
            per_table = self._elements.update(lengths)
            for table in self.tables:
                table.updates += 1
            if not len(slots):
                return
            bag_of_each = None if offsets is None else torch_rows.bag_of_each(offsets, len(slots))
            factors = weights
            if offsets is not None and bag_of_each is not None:
                factors = torch_rows.scales(offsets, bag_of_each, mean, weights)
            sorted_slots = self._sorted
            if sorted_slots is not None and sorted_slots.matches(slots):
                self._side_stream.join(sorted_slots.keys, sorted_slots.sources)
            else:
                sorted_slots = self._sort(slots, per_table)
            backend.update(
                first.config,
                self._row_parts(),
                sorted_slots,
                grads,
                bag_of_each,
                factors,
                first.learning_rate,
                first.updates,
                first._ids.index.version(),
            )

    def _find(self, ids: torch.Tensor) -> torch.Tensor:
        per_table = self._elements
        parts = self._ids.stack([_ids(table).index.parts for table in self.tables])
        return launch.find(ids, parts, per_table.starts, per_table.longest, count_hits=True, clamp=True)

    def _see(self, ids: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        per_table, first = self._elements, self.tables[0]
        indices = [_ids(table).index for table in self.tables]
        for table, index, length in zip(self.tables, indices, lengths, strict=True):
            table.step += 1
            index.reserve_keys(length)
            index.reserve(length)
            table._storage.grow(index.capacity)
        parts = self._row_parts()
        slots, new_counts = launch.find_or_insert(ids, parts, per_table.starts, per_table.longest, count_hits=True)
        bits = self._bits()
        placed = launch.allocate_slots(
            ids, slots, new_counts, parts, first.step, indices[0].version(), bits, per_table.starts, per_table.longest
        )
        if parts is not self._taken:
            self._side_stream.record_use(parts, *(index.records for index in indices))
            self._taken = parts
        with (
            self._side_stream.fork(placed.keys) if len(ids) >= SIDE_STREAM_MIN_IDS else nullcontext()
        ):  # no lookup needs it
            self._sorted = sort_keys(slots, placed.keys, bits)
            launch.count(self._sorted, parts, first.step)
        for index, length in zip(indices, lengths, strict=True):
            index.prefetch_counters(length)
        backend.start(
            first.config,
            self._numbers,
            parts,
            placed.ids,
            placed.slots,
            per_table.starts,
            per_table.longest,
            counted=True,
        )
        return slots

    def _update_each(
        self,
        slots: torch.Tensor,
        lengths: Sequence[int],
        grads: torch.Tensor,
        offsets: torch.Tensor | None,
        bags: Sequence[int],
        pooling: str,
        weights: torch.Tensor | None,
    ) -> None:
        slots_of = slots.split(list(lengths))
        weights_of = [None] * len(lengths) if weights is None else weights.split(list(lengths))
        if offsets is None:
            for table, part, gradients in zip(self.tables, slots_of, grads.split(list(lengths)), strict=True):
                table.update(part, gradients)
            return
        first = 0
        for number, (table, gradients) in enumerate(zip(self.tables, grads.split(list(bags)), strict=True)):
            ends = offsets[first : first + bags[number] + 1]
            table.update(
                slots_of[number], gradients, offsets=ends - ends[0], pooling=pooling, weights=weights_of[number]
            )
            first += bags[number]

    def _row_parts(self) -> torch.Tensor:
        return self._rows.stack([_backend(table).parts() for table in self.tables])

    def _sort(self, slots: torch.Tensor, per_table: TableOffsets) -> SortedSlots:
        bits = self._bits()
        return sort(slots, bits, per_table.keys(bits))

    def _bits(self) -> int:
        return max(table.capacity for table in self.tables).bit_length()

    def _together(self, lengths: Sequence[int]) -> bool:
        """Whether all tables can take a step in the same launches."""
        first = self.tables[0]
        for table, length in zip(self.tables, lengths, strict=True):
            ids = _ids(table)
            same = table.step == first.step and ids.index.version() == _ids(first).index.version()
            if table.before_change or not same or not ids.simple or not ids.index.has_room(length):
                return False
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """No other thread reads or changes the tables; always in the group's order."""
        with ExitStack() as stack:
            for table in self.tables:
                stack.enter_context(table.exclusive())
            yield


def alike(table: HashTable, other: HashTable) -> bool:
    """Whether two tables can be of one group."""
    return table.kind is not None and table.device == other.device and table.kind == other.kind


def _ids(table: HashTable) -> DeviceIdTable:
    return cast(DeviceIdTable, table._ids)


def _backend(table: HashTable) -> CudaBackend:
    return cast(CudaBackend, table._backend)
