"""One way to copy a table, for copy.deepcopy, modules' `.to(device)`, sharding and caching: all that it holds.

Rows with their optimizer state, shows, clicks and last steps; sightings of ids that have no row yet; the counters, on
which also what is drawn at random depends; the learning rate. What was changed since a version is not copied: the first
delta of a copy is a full one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from hybrid_torchrec.table.hash_table import HashTable

COPIED = ("step", "updates", "insertions", "evictions", "lookups", "hits", "learning_rate", "accumulate")


def copy_of(table: HashTable, device: torch.device | str | None = None) -> HashTable:
    """A table of its own memory, on `device` or on that of `table`, which trains on as `table` would.

    Ids keep their slots, and slots without a row the order in which they are used again. Raises RuntimeError for cached
    tables, and while gradients wait for their step.
    """
    if not table.resident:
        raise RuntimeError(
            f"table {table.config.name!r} has rows on disk and in other tiers, which one copy only can own; save it"
        )
    with table.exclusive():
        _refuse_waiting_gradients(table)
        copied = type(table)(table.config, table.device if device is None else device)
        _copy_slots(table, copied)
        _copy_numbers(table, copied)
        _copy_admission_counts(table, copied, None)
    return copied


def copy_into(
    source: HashTable,
    target: HashTable,
    *,
    owned: Callable[[torch.Tensor], torch.Tensor] | None = None,
    columns: tuple[int, int] | None = None,
) -> None:
    """Puts what `source` holds into the new table `target`, which may hold its rows elsewhere; ids get other slots.

    owned: ids (L,) int64 on the CPU -> (L,) bool, which of them go along; None: all. columns: first and width of those
    that go along. Raises RuntimeError while gradients wait for their step, and for a target that counts sightings in
    another way.
    """
    with source.exclusive():
        _refuse_waiting_gradients(source)
        ids = source.ids()
        rows, _ = source.read(ids if owned is None else ids[owned(ids)])
        before = target.evictions
        target.write(rows if columns is None else rows.columns(*columns))
        evicted = target.evictions - before  # where the share of max_rows is less than that of the rows
        _copy_numbers(source, target)
        target.evictions += evicted
        _copy_admission_counts(source, target, owned)


def _refuse_waiting_gradients(table: HashTable) -> None:
    if not table.pending_gradients.empty:
        raise RuntimeError(
            f"table {table.config.name!r}: gradients wait for their step; call apply_gradients(), then copy or move it"
        )


def _copy_slots(source: HashTable, copied: HashTable) -> None:
    """Slots that are free get ids for a moment, so that the others follow in their order; then they go as they went."""
    slots = torch.arange(1, source.index.slots())
    free = source.index.free_slots().cpu()
    rows = source.rows_at(slots).to("cpu")
    ids, last_step = rows.ids.clone(), rows.last_step.clone()
    used = torch.ones(len(ids), dtype=torch.bool)
    used[free - 1] = False
    candidates = torch.arange(len(ids))  # as many of them are not in use as slots are free, or more
    stand_ins = candidates[~torch.isin(candidates, ids[used])][: len(free)]
    ids[free - 1], last_step[free - 1] = stand_ins, 0
    copied.write(replace(rows, ids=ids, last_step=last_step))
    copied.index.erase(stand_ins)


def _copy_numbers(source: HashTable, target: HashTable) -> None:
    for attribute in COPIED:
        setattr(target, attribute, getattr(source, attribute))


def _copy_admission_counts(
    source: HashTable, target: HashTable, owned: Callable[[torch.Tensor], torch.Tensor] | None
) -> None:
    ids, counts = source.index.sightings()
    if not len(counts):
        return
    exact = len(ids) > 0
    if source.config.admission != target.config.admission or (not exact and source.config.seed != target.config.seed):
        raise RuntimeError(
            f"table {source.config.name!r}: sightings counted by {source.config.admission} of seed "
            f"{source.config.seed} cannot go on as {target.config.admission} of seed {target.config.seed}"
        )
    if exact and owned is not None:  # a sketch stays whole: counts may be too high, and are never too low
        mine = owned(ids)
        ids, counts = ids[mine], counts[mine]
    target.index.set_sightings(ids, counts)
