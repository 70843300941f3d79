"""Tables of a collection that are looked up and updated together, where their device has launches for it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hybrid_torchrec.host_copies import picked
from hybrid_torchrec.modules.table import Lookup, TablePart
from hybrid_torchrec.table import HashTable, TableGroup


@dataclass(frozen=True)
class Bags:
    """Bags of several tables, one table after the other."""

    offsets: Tensor  # (B + 1,) int64
    counts: tuple[int, ...]  # bags of each table; B in all
    pooling: str
    weights: Tensor | None = None  # (L,) float32

    def of(self, number: int) -> Tensor:
        """(counts[number] + 1,) int64 from 0: offsets of the bags of one table."""
        if len(self.counts) == 1:
            return self.offsets
        first = sum(self.counts[:number])
        offsets = self.offsets[first : first + self.counts[number] + 1]
        return offsets - offsets[0]


@dataclass(frozen=True)
class GroupLookup:
    """Slots of the ids of several parts, one part after the other."""

    each: tuple[Lookup, ...]
    slots: Tensor  # (L,) int64, of all of them
    lengths: tuple[int, ...]


class PartGroup:
    """Parts in one launch (tables of a GPU that are alike), or a single part. Results are those of one after the other.

    Elements of all arguments are in the order of the parts.
    """

    def __init__(self, parts: Sequence[TablePart]) -> None:
        self.parts = list(parts)
        self._group: TableGroup | None = None
        if len(parts) > 1:
            self._group = TableGroup([part.table for part in parts])

    def assign(self, ids: Sequence[Tensor], *, train: bool, occurrences: Sequence[Tensor] | None = None) -> GroupLookup:
        """TablePart.assign of each."""
        lengths = tuple(len(part) for part in ids)
        if self._group is None:
            seen = None if occurrences is None else occurrences[0]
            lookup = self.parts[0].assign(ids[0], train=train, occurrences=seen)
            return GroupLookup((lookup,), lookup.slots, lengths)
        slots = self._assign(self._group, torch.cat(list(ids)), lengths, train, occurrences)
        for part in self.parts:
            part.after_assign(train)
        each = zip(self.parts, ids, slots.split(list(lengths)))
        lookups = tuple(Lookup(own, found, train, part.table.moves) for part, own, found in each)
        return GroupLookup(lookups, slots, lengths)

    def _assign(
        self,
        group: TableGroup,
        ids: Tensor,
        lengths: tuple[int, ...],
        train: bool,
        occurrences: Sequence[Tensor] | None,
    ) -> Tensor:
        if occurrences is None or not train:
            return group.assign(ids, lengths, train=train)
        every = torch.cat(list(occurrences))
        totals = torch.stack([seen.sum() for seen in occurrences]).tolist()
        slots = group.assign(ids.repeat_interleave(every), totals, train=True)
        return picked(slots, every.cumsum(0) - 1)

    def rows(self, lookup: GroupLookup) -> Tensor:
        """(L, D) float32."""
        if self._group is None:
            return self.parts[0].table.lookup(lookup.slots)
        return self._group.lookup(lookup.slots, lookup.lengths)

    def pooled(self, lookup: GroupLookup, bags: Bags) -> Tensor:
        """(B, D) float32."""
        if self._group is None:
            return self.parts[0].table.lookup_pooled(lookup.slots, bags.offsets, bags.pooling, bags.weights)
        return self._group.lookup_pooled(lookup.slots, bags.offsets, bags.counts, bags.pooling, bags.weights)

    def weight_gradients(self, lookup: GroupLookup, grads: Sequence[Tensor | None], bags: Bags) -> Tensor:
        """(L,) float32: of the bags' weights, with the rows as they are now; 0 for parts without a gradient."""
        slots = self._slots_now(lookup)
        if self._group is not None and (joined := _joined(grads)) is not None:
            return self._group.sample_weight_gradients(slots, lookup.lengths, bags.offsets, joined, bags.pooling)
        found = []
        for number, (part, own) in enumerate(zip(self.parts, slots.split(list(lookup.lengths)))):
            grad = grads[number]
            if grad is None:
                found.append(torch.zeros(len(own), device=own.device))
            else:
                found.append(part.table.sample_weight_gradients(own, bags.of(number), grad, bags.pooling))
        return torch.cat(found)

    def update(self, lookup: GroupLookup, grads: Sequence[Tensor | None], bags: Bags | None = None) -> None:
        """TablePart.update of each that has a gradient: (lengths[t], D), or (counts[t], D) of bags."""
        at_once = all(part.trains and not part.table.accumulate for part in self.parts) and lookup.each[0].train
        joined = _joined(grads) if self._group is not None and at_once else None
        if self._group is None or joined is None:
            self._update_each(lookup, grads, bags)
            return
        for part in self.parts:
            part.take_rate()
        slots = self._slots_now(lookup)
        if bags is None:
            self._group.update(slots, lookup.lengths, joined)
        else:
            self._group.update(
                slots,
                lookup.lengths,
                joined,
                offsets=bags.offsets,
                bags=bags.counts,
                pooling=bags.pooling,
                weights=bags.weights,
            )

    def _update_each(self, lookup: GroupLookup, grads: Sequence[Tensor | None], bags: Bags | None) -> None:
        lengths = list(lookup.lengths)
        weights = None if bags is None or bags.weights is None else bags.weights.split(lengths)
        for number, (part, own, grad) in enumerate(zip(self.parts, lookup.each, grads)):
            if grad is None:
                continue
            if bags is None:
                part.update(own, grad)
            else:
                part.update(
                    own,
                    grad,
                    offsets=bags.of(number),
                    pooling=bags.pooling,
                    weights=None if weights is None else weights[number],
                )

    def _slots_now(self, lookup: GroupLookup) -> Tensor:
        """The lookup's own tensor, which the group knows sorted, unless rows have gone since."""
        now = [part.slots_now(own) for part, own in zip(self.parts, lookup.each)]
        if all(slots is own.slots for slots, own in zip(now, lookup.each)):
            return lookup.slots
        return torch.cat(now)


class TableGroups:
    """Divides the parts of a collection into groups, and keeps them as long as the parts' tables are the same."""

    def __init__(self) -> None:
        self._tables: list[HashTable] = []
        self._keys: list[Hashable] = []
        self._groups: list[tuple[PartGroup, list[int]]] = []

    def __deepcopy__(self, memo: dict[int, object]) -> TableGroups:
        return TableGroups()  # the copies of the parts have tables of their own

    def groups(
        self, parts: Sequence[TablePart], keys: Sequence[Hashable] | None = None
    ) -> list[tuple[PartGroup, list[int]]]:
        """Each with the numbers of its parts, in the order of their firsts; parts of different keys stay apart."""
        tables, keys = [part.table for part in parts], list(keys or [None] * len(parts))
        same = len(tables) == len(self._tables) and all(a is b for a, b in zip(tables, self._tables))
        if not same or keys != self._keys:
            self._tables, self._keys, self._groups = tables, keys, _divided(parts, keys)
        return self._groups


def _divided(parts: Sequence[TablePart], keys: Sequence[Hashable]) -> list[tuple[PartGroup, list[int]]]:
    divided: dict[Hashable, list[int]] = {}
    for number, (part, key) in enumerate(zip(parts, keys)):
        kind = part.table.kind
        divided.setdefault(("alone", number) if kind is None else (part.table.device, kind, key), []).append(number)
    return [(PartGroup([parts[number] for number in numbers]), numbers) for numbers in divided.values()]


def _joined(grads: Sequence[Tensor | None]) -> Tensor | None:
    given = [grad for grad in grads if grad is not None]
    return torch.cat(given) if len(given) == len(grads) else None
