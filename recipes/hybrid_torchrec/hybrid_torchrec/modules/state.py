"""state_dict of a table: its rows with all that belongs to them, as tensors of equal length.

Keys, after the table's name: `weight` (R, D), `ids` (R,), `state.<name>` (R,) or (R, D) of the optimizer, `shows`,
`clicks`, `last_step` (R,), and `clock` (4,): steps, updates, insertions and evictions of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hybrid_torchrec.table import HashTable, RowBatch

CLOCK = "clock"
_WEIGHT = "weight"  # RowBatch calls them weights; in a module's state_dict a table's rows are its weight


def keys_of(table: HashTable) -> list[str]:
    state = [f"state.{name}" for name in table.config.optimizer.state_widths(table.config.dim)]
    return [_WEIGHT, "ids", *state, "shows", "clicks", "last_step"]


def rows_to_state(table: HashTable) -> dict[str, Tensor]:
    """Copies, in the order of the ids, so that equal tables have equal states."""
    rows, _ = table.read(table.ids())
    tensors = rows.sorted_by_id().named_tensors()
    tensors[_WEIGHT] = tensors.pop("weights")
    return tensors


def rows_from_state(tensors: Mapping[str, Tensor]) -> RowBatch:
    named = dict(tensors)
    named["weights"] = named.pop(_WEIGHT)
    return RowBatch.from_named_tensors(named)


def clock_of(table: HashTable) -> Tensor:
    return torch.tensor([table.step, table.updates, table.insertions, table.evictions])


def replace_rows(table: HashTable, rows: RowBatch, clock: Tensor) -> None:
    """The table has these rows, and no others."""
    table.erase(table.ids())
    table.write(rows)
    table.step, table.updates, table.insertions, table.evictions = (int(count) for count in clock)
