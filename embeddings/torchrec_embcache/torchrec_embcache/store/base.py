"""RowStore: what every tier below the device table is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from hybrid_torchrec.table import RowBatch, TableConfig


class RowStore(Protocol):
    """Rows by id, in host memory or on disk. All tensors are on the CPU. Safe to call from several threads."""

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        """The rows of those of ids (L,) int64 that are there, in their order, and which are, (L,) bool."""
        ...

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        """As read, of distinct ids; in parts, at least one, and in no order: so no row is copied to join them."""
        ...

    def write(self, rows: RowBatch) -> None:
        """Inserts or overwrites. When it returns, the end of the process does not lose the rows of a store on disk."""
        ...

    def erase(self, ids: torch.Tensor) -> int:
        """Removes the rows of ids (L,); returns how many there were."""
        ...

    def __len__(self) -> int: ...

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        """All rows, at most ``chunk`` at a time. A row that is written meanwhile may come again, the newer later."""
        ...

    def flush(self) -> None:
        """When it returns, a loss of power does not lose what was written."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class RowLayout:
    """Shapes and types of a table's rows."""

    dim: int
    dtype: torch.dtype
    state: dict[str, int]  # name -> columns, 0 for one number a row

    @staticmethod
    def of(config: TableConfig) -> RowLayout:
        return RowLayout(config.dim, config.dtype, config.optimizer.state_widths(config.dim))

    @property
    def row_bytes(self) -> int:
        return self.dim * self.dtype.itemsize + sum(4 * max(width, 1) for width in self.state.values()) + 16

    def empty(self, rows: int = 0) -> RowBatch:
        """Uninitialised rows."""
        return RowBatch(
            ids=torch.empty(rows, dtype=torch.int64),
            weights=torch.empty((rows, self.dim), dtype=self.dtype),
            state={name: torch.empty((rows, width) if width else (rows,)) for name, width in self.state.items()},
            shows=torch.empty(rows),
            clicks=torch.empty(rows),
            last_step=torch.empty(rows, dtype=torch.int64),
        )


def columns(rows: RowBatch) -> list[torch.Tensor]:
    """What is stored of a row beside its id, in the order in which it is stored; contiguous."""
    state = [rows.state[name] for name in sorted(rows.state)]
    return [t.contiguous() for t in (rows.weights, *state, rows.shows, rows.clicks, rows.last_step)]
