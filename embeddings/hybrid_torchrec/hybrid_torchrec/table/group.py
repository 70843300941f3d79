"""TableGroup: several tables of one device that share launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from hybrid_torchrec.backends.base import Gradient
from hybrid_torchrec.host_copies import to_device
from hybrid_torchrec.table.hash_table import HashTable


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
        self._launches = first.backend.group([table.backend for table in tables])

    def assign(self, ids: torch.Tensor, lengths: Sequence[int], *, train: bool) -> torch.Tensor:
        """HashTable.assign of each; (L,) int64, every table's own slots."""
        first = self.tables[0]
        ids = to_device(ids.detach(), first.device)
        with self._locked():
            if len(ids) == 0 or (train and not self._in_one_step(lengths)):
                parts = zip(self.tables, ids.split(list(lengths)), strict=True)
                return torch.cat([table.assign(part, train=train) for table, part in parts])
            for table, length in zip(self.tables, lengths, strict=True):
                table.lookups += length
                table.step += int(train)
            if train:
                return self._launches.insert(ids, lengths, first.step)
            return self._launches.look_up(ids, lengths)

    def lookup(self, slots: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """HashTable.lookup of each; (L, D) float32."""
        return self._launches.gather(slots, lengths)

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
        return self._launches.pool(slots, offsets, bags, self.tables[0].is_mean(pooling), weights)

    def sample_weight_gradients(
        self, slots: torch.Tensor, lengths: Sequence[int], offsets: torch.Tensor, grads: torch.Tensor, pooling: str
    ) -> torch.Tensor:
        """Gradient (L,) float32 of lookup_pooled's weights, for grads (B, D) of its result."""
        mean = self.tables[0].is_mean(pooling)
        return self._launches.sample_weight_gradients(slots, lengths, offsets, grads, mean)

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
        first = self.tables[0]
        mean = first.is_mean(pooling)
        with self._locked():
            watched = any(table.before_change or not table.pending_gradients.empty for table in self.tables)
            if watched or len({(t.updates, t.learning_rate, t.index.version()) for t in self.tables}) > 1:
                self._update_each(slots, lengths, grads, offsets, bags, pooling, weights)
                return
            for table in self.tables:
                table.updates += 1
            if len(slots):
                gradient = Gradient(slots=slots, values=grads, offsets=offsets, mean=mean, samples=weights)
                self._launches.update(gradient, lengths, first.learning_rate, first.updates)

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

    def _in_one_step(self, lengths: Sequence[int]) -> bool:
        """Whether all tables can take a step in the same launches."""
        first = self.tables[0]
        if any(table.before_change or table.step != first.step for table in self.tables):
            return False
        return self._launches.can_insert(lengths)

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
