"""TableShard, HashTables: hash tables as torch.distributed.checkpoint sees them."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.changes import ChangeReader
from hybrid_torchrec.checkpoint.errors import CheckpointError, CorruptCheckpoint, NoCheckpoint, TableMismatch
from hybrid_torchrec.checkpoint.parts import ERASED, INFO, POLICY, Key, Rows, Shape
from hybrid_torchrec.checkpoint.tiers import SequentialRows, TieredTable
from hybrid_torchrec.hashing import rank_of
from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.table.hash_table import HashTable

_log = logging.getLogger(__name__)
SCANNED = 65536  # rows, of tables that are not all on the device
_SCALARS = ("step", "updates", "insertions", "evictions", "learning_rate")


@dataclass(frozen=True)
class TableShard:
    """One rank's part of a table: the ids with rank_of(id, shards) == shard. A table on one rank alone is 0 of 1."""

    table: HashTable
    shard: int = 0
    shards: int = 1

    def owns(self, ids: Tensor) -> Tensor:
        """ids int64 (L,) -> bool (L,)"""
        return rank_of(ids, self.shards) == self.shard

    def overlaps(self, shard: int, shards: int) -> bool:
        """Whether an id can be both here and on `shard` of `shards`."""
        return overlapping(self.shard, self.shards, shard, shards)


def overlapping(shard: int, shards: int, other: int, others: int) -> bool:
    """Whether one id can be on both: its hash agrees with both numbers modulo their common divisor."""
    common = math.gcd(shards, others)
    return shard % common == other % common


def describe(table: HashTable) -> dict[str, Any]:
    """What must be equal to load a table's rows, and its scalars."""
    exact = len(table.index.sightings()[0]) > 0
    scalars = {name: getattr(table, name) for name in _SCALARS}
    return {**_fixed(table), **scalars, "counting": _counting(table, exact=exact), "default": _default_row(table)}


def like(table: HashTable) -> RowBatch:
    """No rows, of the table's dtypes and widths."""
    config = table.config
    return RowBatch.empty(config.dim, config.optimizer.state_widths(config.dim), config.dtype)


def policy_of(table: HashTable) -> dict[str, Tensor]:
    """Sightings of ids that have no row yet: of exact counts ids and counts, of a sketch its counters."""
    ids, counts = table.index.sightings()
    return {"sighted_ids": ids, "sightings": counts} if len(counts) else {}


def policies_merged(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Of shards whose ids are disjoint. Sketches are added up, which never counts too low."""
    parts = [part for part in parts if part]
    if not parts:
        return {}
    ids = torch.cat([part["sighted_ids"] for part in parts])
    counts = [part["sightings"] for part in parts]
    return {"sighted_ids": ids, "sightings": torch.cat(counts) if len(ids) else torch.stack(counts).sum(0)}


def refuse_waiting_gradients(table: HashTable) -> None:
    if len(table.pending_gradients.slots()):
        raise CheckpointError(
            f"table {table.config.name!r}: gradients wait for their optimizer step; call apply_gradients(), then save"
        )


def freeze(shard: TableShard) -> Rows:
    """The rows of a table that nobody changes until they are written: they may be its own memory."""
    table = shard.table
    refuse_waiting_gradients(table)
    if isinstance(table, TieredTable):
        count = len(table)
        below = SequentialRows(table.config.name, count, table.scan(SCANNED))
        return Rows(count, like(table), below.read, describe(table), policy_of(table))
    with table.lock:
        slots = table.index.used_slots()

    def read(first: int, last: int) -> RowBatch:
        with table.lock:
            return table.rows_at(slots[first:last], shared=True).to("cpu")

    return Rows(len(slots), like(table), read, describe(table), policy_of(table))


def changed(reader: ChangeReader) -> tuple[Rows, tuple[int, int]]:
    """What a delta saves of a table, and what to commit once it is saved."""
    table = reader.table
    with table.exclusive():
        refuse_waiting_gradients(table)
        batch, erased, mark = reader.peek()
        return Rows.of(batch.to("cpu"), describe(table), policy=policy_of(table), erased=erased), mark


def restore(shard: TableShard, infos: list[dict[str, Any]], policies: list[dict[str, Tensor]]) -> None:
    """Scalars and policies of a table from those of the saved shards that overlap it."""
    table = shard.table
    for name in _SCALARS:
        setattr(table, name, max(info[name] for info in infos))
    policy = policies_merged(policies)
    if not policy:
        return
    ids, counts = policy["sighted_ids"], policy["sightings"]
    if any(info["counting"] != _counting(table, exact=len(ids) > 0) for info in infos):
        _log.warning(
            "table %r: it admits ids by another policy than when it was saved; sightings start anew", table.config.name
        )
        return
    if len(ids):
        mine = shard.owns(ids)
        ids, counts = ids[mine], counts[mine]
    table.index.set_sightings(ids, counts)


def _fixed(table: HashTable) -> dict[str, Any]:
    config = table.config
    return {
        "dim": config.dim,
        "dtype": str(config.dtype).removeprefix("torch."),
        "optimizer": config.optimizer.kind,
        "state": dict(config.optimizer.state_widths(config.dim)),
    }


def _counting(table: HashTable, *, exact: bool) -> str:
    """What sightings mean: of a sketch the seed, too, says which counters an id has."""
    return repr(table.config.admission) + ("" if exact else f" of seed {table.config.seed}")


def _default_row(table: HashTable) -> list[float]:
    slot = torch.zeros(1, dtype=torch.int64, device=table.device)
    row: list[float] = table.lookup(slot)[0].float().cpu().tolist()
    return row


class SavedLeaf:
    """Stands in a state dict for a table that is saved: (rows, shard, shards) of all that this process writes of it."""

    def __init__(self, sources: list[tuple[Rows, int, int]]) -> None:
        self._sources = sources

    def sources(self) -> list[tuple[Rows, int, int]]:
        return self._sources

    def __reduce__(self) -> Any:
        raise CheckpointError("a hash table needs its planner: save(..., planner=HashSavePlanner()), load likewise")


class TableLeaf(SavedLeaf):
    """Stands in a state dict for a table in memory, to be saved or loaded."""

    def __init__(self, shard: TableShard, rows: Rows | None = None) -> None:
        super().__init__([])
        self.shard = shard
        self.adds = False  # to what the table holds, as a delta does; otherwise the table is emptied first
        self._rows = rows
        self._expected: dict[Key, bool] = {}  # and whether it came
        self._waiting: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._spare: dict[str, list[Tensor]] = {}  # memory of parts that are in the table
        self._infos: list[dict[str, Any]] = []
        self._policies: dict[int, dict[str, Tensor]] = {}
        self._emptied = False
        self._names = like(shard.table).named_tensors().keys()

    def sources(self) -> list[tuple[Rows, int, int]]:
        rows = self._rows if self._rows is not None else freeze(self.shard)
        return [(rows, self.shard.shard, self.shard.shards)]

    def wanted(self, name: str, places: Iterable[Key], *, missing_is_fine: bool) -> set[Key]:
        """Which saved tensors may hold rows of this shard."""
        every = set(places)
        if not every and not missing_is_fine:
            raise NoCheckpoint(
                f"no table {name!r} in this checkpoint; check the table's name, or load with allow_partial_load=True"
            )
        return {place for place in every if self.shard.overlaps(place.shard, place.shards)}

    def expect(self, place: Key) -> None:
        self._expected[place] = False

    def buffer(self, place: Key, shape: Shape) -> Tensor:
        """Memory for one saved tensor; that of a part before is used again, for the system gives new pages slowly."""
        spare = self._spare.get(place.field, [])
        for index, tensor in enumerate(spare):
            if tensor.dtype == shape.dtype and tensor.shape[1:] == shape.size[1:] and len(tensor) >= shape.size[0]:
                return spare.pop(index)[: shape.size[0]]
        return torch.empty(shape.size, dtype=shape.dtype)

    def accept(self, place: Key, value: Any) -> None:
        self._expected[place] = True
        if place.field == INFO:
            self._check(value)
            self._infos.append(value)
        elif place.field == ERASED:
            self._empty()
            self.shard.table.erase(self._mine(value)[0])
        elif place.field.startswith(POLICY):
            self._policies.setdefault(place.shard, {})[place.field.removeprefix(POLICY)] = value
        else:
            assert place.part is not None
            self._accept_part((place.shard, place.part), place.shards, place.field, value)

    def finish(self) -> None:
        """After the last tensor: the table's own numbers."""
        self._spare.clear()
        missing = sorted(place.under("") for place, came in self._expected.items() if not came)
        if missing:
            raise CorruptCheckpoint(f"parts that did not come: {', '.join(missing)}; load an earlier checkpoint")
        if self._infos:
            self._empty()
            restore(self.shard, self._infos, list(self._policies.values()))

    def _check(self, info: dict[str, Any]) -> None:
        own = _fixed(self.shard.table)
        faults = [f"{name} is {info[name]} there, {own[name]} here" for name in own if info[name] != own[name]]
        if faults:
            raise TableMismatch(
                f"table {self.shard.table.config.name!r} is not the one that was saved: {'; '.join(faults)}. "
                "Give it the saved configuration; export() and HashTable.write() move rows between different tables"
            )

    def _accept_part(self, part: tuple[int, int], shards: int, field: str, value: Tensor) -> None:
        tensors = self._waiting.setdefault(part, {})
        tensors[field] = value
        if tensors.keys() != self._names:
            return
        batch = RowBatch.from_named_tensors(self._waiting.pop(part))
        self._empty()
        if part[0] == self.shard.shard and shards == self.shard.shards:
            self.shard.table.write(batch)  # saved by this very shard
        else:
            ids, index = self._mine(batch.ids)
            self.shard.table.write(batch if len(ids) == len(batch) else batch.select(index))
        for name, tensor in tensors.items():
            self._spare.setdefault(name, []).append(tensor if tensor._base is None else tensor._base)

    def _mine(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        index = self.shard.owns(ids).nonzero()[:, 0]
        return ids[index], index

    def _empty(self) -> None:
        if not self.adds and not self._emptied:
            for ids in self.shard.table.ids().split(SCANNED):
                self.shard.table.erase(ids)
        self._emptied = True


class HashTables:
    """A Stateful of torch.distributed.checkpoint: {name: TableShard or HashTable}.

        tables = HashTables({"user": TableShard(table, rank, world)})
        save({"model": model, "tables": tables}, storage_writer=..., planner=HashSavePlanner())
        load({"model": model, "tables": tables}, storage_reader=..., planner=HashLoadPlanner())

    The number of ranks may differ between save and load.
    """

    def __init__(self, tables: Mapping[str, TableShard | HashTable], *, adds: bool = False) -> None:
        self.shards = {
            name: table if isinstance(table, TableShard) else TableShard(table) for name, table in tables.items()
        }
        self._adds = adds
        self._rows: dict[str, Rows] = {}
        self._leaves: dict[str, TableLeaf] = {}

    def with_rows(self, rows: Mapping[str, Rows]) -> HashTables:
        """The same tables, to be saved as `rows` say: a snapshot, or a delta."""
        other = HashTables(self.shards, adds=self._adds)
        other._rows = dict(rows)
        return other

    def state_dict(self) -> dict[str, Any]:
        self._leaves = {name: TableLeaf(shard, self._rows.get(name)) for name, shard in self.shards.items()}
        for leaf in self._leaves.values():
            leaf.adds = self._adds
        return dict(self._leaves)

    def load_state_dict(self, _: dict[str, Any]) -> None:
        """The rows are in the tables already; this checks that all came."""
        for leaf in self._leaves.values():
            leaf.finish()
