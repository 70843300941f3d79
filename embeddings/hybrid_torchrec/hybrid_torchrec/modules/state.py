"""state_dict of a table: its rows with all that belongs to them, as tensors of equal length.

Keys, after the table's name: `weight` (R, D), `ids` (R,), `state.<name>` (R,) or (R, D) of the optimizer, `shows`,
`clicks`, `last_step` (R,), and `clock` (4,): steps, updates, insertions and evictions of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

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


def unexpected(state_dict: Mapping[str, object], prefix: str, known: Iterable[str]) -> list[str]:
    """Keys under a table's prefix that are not known."""
    expected = set(known)
    return [key for key in state_dict if key.startswith(prefix) and key not in expected]


def of_another_optimizer(unexpected_keys: Iterable[str], prefix: str, config: TableConfig) -> list[str]:
    """Why rows with more state than the table's optimizer has are not loaded; nothing where they have none."""
    more = [key for key in unexpected_keys if "state" in key.removeprefix(prefix).split(".")]
    if not more:
        return []
    return [
        f"table {config.name}: the state_dict has {', '.join(more)}, which {config.optimizer.kind} has not; give the "
        "table the optimizer that it was saved with. Its rows are as they were"
    ]


def replace_rows(table: HashTable, rows: RowBatch, clock: Tensor) -> None:
    """The table has these rows, and no others. Raises ValueError, with nothing changed, for rows that do not fit."""
    table.check_rows(rows)
    if clock.shape != (4,):
        raise ValueError(f"table '{table.config.name}': clock must have 4 counters, got shape {tuple(clock.shape)}")
    table.erase(table.ids())
    table.write(rows)
    table.step, table.updates, table.insertions, table.evictions = (int(count) for count in clock)
