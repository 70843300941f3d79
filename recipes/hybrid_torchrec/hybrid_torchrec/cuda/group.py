"""Several tables in the launches of one: what a collection of tables needs to fill a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch

from hybrid_torchrec.cuda import backend, launch
from hybrid_torchrec.cuda.backend import CudaBackend
from hybrid_torchrec.cuda.census import Census
from hybrid_torchrec.cuda.ids import DeviceIdTable
from hybrid_torchrec.cuda.order import Order, sort
from hybrid_torchrec.table.config import TableConfig
from hybrid_torchrec.table.hash_table import HashTable


class TableGroup:
    """Tables of one device whose rows, optimizers and initialisers are alike.

    Elements of all arguments are in the order of the tables, lengths[t] of table t. Results are those of the tables'
    own methods, to which a call goes that needs more than they share: eviction, growth of rows, admission by count,
    watchers of changes, tables that have not taken the same number of steps.
    """

    def __init__(self, tables: Sequence[HashTable]) -> None:
        if not tables or not all(alike(table, tables[0]) for table in tables):
            raise ValueError("TableGroup: tables must be on one CUDA device and alike but for name, seed and sizes")
        self.tables = list(tables)
        census = Census(len(tables), tables[0].device)
        for row, table in enumerate(tables):
            table._ids.index.share(census, row)
        census.wait()
        self._lengths: tuple[int, ...] = ()
        self._starts = torch.empty(0)
        self._table_of = self._table_keys = torch.empty(0)
        self._bits = 0  # of a slot in _table_keys
        self._order: Order | None = None
        self._made_of: dict[str, tuple[int, ...]] = {}
        self._stacked: dict[str, torch.Tensor] = {}

    def assign(self, ids: torch.Tensor, lengths: Sequence[int], *, train: bool) -> torch.Tensor:
        """HashTable.assign of each; (L,) int64, every table's own slots."""
        first, device = self.tables[0], self.tables[0].device
        indices = [_ids(table).index for table in self.tables]
        ids = ids.detach().to(device)
        together = not train or self._together(lengths)
        if not together or len(ids) == 0:
            parts = zip(self.tables, ids.split(list(lengths)), strict=True)
            return torch.cat([table.assign(part, train=train) for table, part in parts])
        self._divide(lengths)
        longest = max(lengths)
        for table, length in zip(self.tables, lengths, strict=True):
            table.lookups += length
        if not train:
            parts = self._stack("ids", [index.parts for index in indices])
            return launch.find(ids, parts, self._starts, longest, count_hits=True, clamp=True)
        for table, index, length in zip(self.tables, indices, lengths, strict=True):
            table.step += 1
            index.reserve_keys(length)
            index.reserve(length)
            table._storage.grow(index.capacity)
        parts = self._stack("rows", [_backend(table).parts() for table in self.tables])
        slots, firsts = launch.see(ids, parts, self._starts, longest, count_hits=True)
        version = indices[0].version()
        new_ids, new_slots = launch.place(ids, slots, firsts, parts, first.step, version, self._starts, longest)
        self._order = self._sort(slots)
        launch.count(self._order, parts, first.step)
        for index, length in zip(indices, lengths, strict=True):
            index.look_ahead(length)
        numbers = _backend(first).numbers
        backend.start(first.config, numbers, parts, new_ids, new_slots, self._starts, longest, counted=True)
        return slots

    def lookup(self, slots: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """HashTable.lookup of each; (L, D) float32."""
        self._divide(lengths)
        parts = self._stack("rows", [_backend(table).parts() for table in self.tables])
        return backend.gather(self.tables[0].config, parts, slots, self._starts, max(lengths))

    def update(self, slots: torch.Tensor, lengths: Sequence[int], grads: torch.Tensor) -> None:
        """HashTable.update of each; grads (L, D)."""
        first = self.tables[0]
        alone = any(table.before_change or not table._pending.empty for table in self.tables)
        if alone or len({(t.updates, t.learning_rate, t._ids.index.version()) for t in self.tables}) > 1:
            parts = zip(self.tables, slots.split(list(lengths)), grads.split(list(lengths)), strict=True)
            for table, part, gradients in parts:
                table.update(part, gradients)
            return
        self._divide(lengths)
        for table in self.tables:
            table.updates += 1
        order = self._order if self._order is not None and self._order.is_of(slots) else self._sort(slots)
        parts = self._stack("rows", [_backend(table).parts() for table in self.tables])
        backend.update(first.config, parts, order, grads, None, None, first.learning_rate, first.updates,
                       first._ids.index.version())  # fmt: skip

    def _sort(self, slots: torch.Tensor) -> Order:
        bits = max(table.capacity for table in self.tables).bit_length()
        if bits != self._bits:
            dtype = torch.int32 if bits + len(self.tables).bit_length() < 31 else torch.int64
            self._table_keys, self._bits = (self._table_of << bits).to(dtype), bits
        return sort(slots, bits, self._table_keys)

    def _together(self, lengths: Sequence[int]) -> bool:
        """Whether all tables can take a step in the same launches."""
        first = self.tables[0]
        for table, length in zip(self.tables, lengths, strict=True):
            ids = _ids(table)
            same = table.step == first.step and ids.index.version() == _ids(first).index.version()
            if table.before_change or not same or not ids.simple or not ids.index.has_room(length):
                return False
        return True

    def _divide(self, lengths: Sequence[int]) -> None:
        given = tuple(lengths)
        if given != self._lengths:
            device = self.tables[0].device
            ends = torch.tensor([0, *given], dtype=torch.int64).cumsum(0)
            self._starts = ends.to(device)
            tables = torch.arange(len(given), device=device)
            self._table_of = tables.repeat_interleave(self._starts.diff(), output_size=int(ends[-1]))
            self._lengths, self._bits = given, 0

    def _stack(self, name: str, parts: list[torch.Tensor]) -> torch.Tensor:
        made_of = tuple(id(part) for part in parts)
        if self._made_of.get(name) != made_of:
            self._stacked[name] = torch.cat(parts)
            self._made_of[name] = made_of
        return self._stacked[name]


def alike(table: HashTable, other: HashTable) -> bool:
    """Whether two tables can be of one group."""
    if not isinstance(table._ids, DeviceIdTable) or table.device != other.device:
        return False
    if not isinstance(table._backend, CudaBackend) or not table._backend.groups:
        return False
    return _kind(table.config) == _kind(other.config)


def _kind(config: TableConfig) -> TableConfig:
    return replace(config, name="", seed=0, initial_capacity=0, max_rows=None, eviction=None)


def _ids(table: HashTable) -> DeviceIdTable:
    return cast(DeviceIdTable, table._ids)


def _backend(table: HashTable) -> CudaBackend:
    return cast(CudaBackend, table._backend)
