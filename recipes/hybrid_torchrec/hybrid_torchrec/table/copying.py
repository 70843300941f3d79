"""copy.deepcopy of a table, for models that are kept as they are while another one trains on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybrid_torchrec.table.hash_table import HashTable

COPIED = ("step", "updates", "insertions", "evictions", "learning_rate", "accumulate")


def copy_of(table: HashTable) -> HashTable:
    """A table of its own memory with the same rows, optimizer state and sightings; ids may have other slots.

    What was changed since a version is not copied: the first delta of the copy is a full one. Raises RuntimeError for
    cached tables, and while gradients wait for their step.
    """
    name = table.config.name
    if not table.resident:
        raise RuntimeError(f"table {name!r} has rows on disk and in other tiers, which one copy only can own; save it")
    if len(table._pending.slots()):
        raise RuntimeError(f"table {name!r}: gradients wait for their step; call apply_gradients(), then copy")
    with table.exclusive():
        copied = type(table)(table.config, table.device)
        rows, _ = table.read(table.ids())
        copied.write(rows)
        for attribute in COPIED:
            setattr(copied, attribute, getattr(table, attribute))
        ids, counts = table._ids.index.sightings()
        if len(counts):
            copied._ids.index.set_sightings(ids, counts)
    return copied
