"""Rows of tables that are not all on the device: in order, from where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from hybrid_torchrec.checkpoint.errors import CheckpointError
from hybrid_torchrec.row_batch import RowBatch


class LowerTierRows(Protocol):
    """A table's rows that were not on the device when snapshot_lower_tiers() was called, as they were then."""

    count: int

    def batches(self) -> Iterable[RowBatch]:
        """All of them, on the CPU, once; a thread beside the one that trains."""
        ...

    def release(self) -> None:
        """The table need not keep them any more."""
        ...


@runtime_checkable
class TieredTable(Protocol):
    """A table that keeps rows elsewhere too."""

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        """All rows, on the CPU, while nobody changes the table."""
        ...

    def snapshot_lower_tiers(self) -> LowerTierRows: ...


class SequentialRows:
    """Batches of any size, read as rows [first, last), each row once and in order."""

    def __init__(self, name: str, count: int, batches: Iterable[RowBatch]) -> None:
        self._name = name
        self._count = count
        self._batches = iter(batches)
        self._waiting: list[RowBatch] = []
        self._have = 0
        self._next = 0

    def read(self, first: int, last: int) -> RowBatch:
        if first != self._next or last <= first:
            raise ValueError(f"table {self._name!r}: rows are read once and in order; {first} does not follow")
        while self._have < last - first:
            batch = next(self._batches, None)
            if batch is None:
                self._miscounted(self._next + self._have)
            else:
                self._waiting.append(batch)
                self._have += len(batch)
        joined = RowBatch.concat(self._waiting)
        rows, rest = joined[: last - first], joined[last - first :]
        self._waiting, self._have, self._next = [rest], len(rest), last
        if last == self._count:
            more = len(rest) + sum(len(batch) for batch in self._batches)
            if more:
                self._miscounted(self._count + more)
        return rows

    def _miscounted(self, found: int) -> None:
        raise CheckpointError(
            f"table {self._name!r}: {self._count} rows are to be saved and {found} were found; the table must not be "
            "changed by others while it is saved: use save_async where training goes on"
        )
