"""Snapshot: a table's rows as they are at one moment, copied while training goes on."""

from __future__ import annotations

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.parts import Rows
from hybrid_torchrec.checkpoint.tables import TableShard, describe, like, policy_of, refuse_waiting_gradients
from hybrid_torchrec.checkpoint.tiers import LowerTierRows, SequentialRows, TieredTable
from hybrid_torchrec.row_batch import RowBatch


class Snapshot:
    """Copy on write: taking it copies the slots in use, one number a row; a row itself is copied when the saving thread
    comes to it, or just before training changes, evicts or counts a sighting of it.

    Of a table that keeps rows outside its device, those follow, as its snapshot_lower_tiers() has them.

    `rows` are to be read once, in order. Rows that were copied early wait in memory until then: at most those that
    training touched since. release() ends it; the table then has nothing more to copy.
    """

    def __init__(self, shard: TableShard) -> None:
        self._table = table = shard.table
        with table.exclusive():
            refuse_waiting_gradients(table)
            self._slots = table.index.used_slots().cpu()
            # By slot: still to be copied. Slots that come into use later are beyond its end, or no longer in it.
            self._due = torch.zeros(table.index.slots(), dtype=torch.bool)
            self._due[self._slots] = True
            self._early: list[tuple[Tensor, RowBatch]] = []
            self._info, self._policy = describe(table), policy_of(table)
            self._below: LowerTierRows | None = table.snapshot_lower_tiers() if isinstance(table, TieredTable) else None
            table.before_change.append(self._preserve)

    @property
    def rows(self) -> Rows:
        here, below = len(self._slots), self._below
        count = here + (below.count if below is not None else 0)
        if below is None:
            return Rows(count, like(self._table), self._read, self._info, self._policy)
        rest = SequentialRows(self._table.config.name, below.count, below.batches())

        def read(first: int, last: int) -> RowBatch:
            parts = [self._read(first, min(last, here))] if first < here else []
            if last > here:
                parts.append(rest.read(max(first, here) - here, last - here))
            return RowBatch.concat(parts)

        return Rows(count, like(self._table), read, self._info, self._policy)

    def release(self) -> None:
        if self._below is not None:
            self._below.release()
        with self._table.lock:
            if self._preserve in self._table.before_change:
                self._table.before_change.remove(self._preserve)
            self._early.clear()

    def _preserve(self, slots: Tensor) -> None:
        """Called by the table, under its lock, with slots (L,) that are about to change; negative ones are nobody's."""
        slots = slots[(slots > 0) & (slots < len(self._due))]
        slots = slots[self._due[slots]].unique()
        if len(slots):
            self._due[slots] = False
            self._early.append((slots, self._table.rows_at(slots).to("cpu")))

    def _read(self, first: int, last: int) -> RowBatch:
        slots = self._slots[first:last]
        with self._table.lock:
            due = self._due[slots]
            self._due[slots] = False
            late = self._table.rows_at(slots[due]).to("cpu")
            early = self._early
            self._early = []
        if not early and bool(due.all()):
            return late
        # `slots` ascends, so a place in it is found by bisection.
        places, batches = [due.nonzero()[:, 0]], [late]
        kept = []
        for there, batch in early:
            inside = (there >= slots[0]) & (there <= slots[-1])
            places.append(torch.searchsorted(slots, there[inside]))
            batches.append(batch.select(inside))
            if not bool(inside.all()):
                kept.append((there[~inside], batch.select(~inside)))
        with self._table.lock:
            self._early = kept + self._early
        return RowBatch.concat(batches).select(torch.cat(places).argsort())
