"""ServedShard: the rows of one shard in a server's memory, looked up while changes are applied."""

from __future__ import annotations

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, explained
from hybrid_torchrec.checkpoint.export import ServingTable
from hybrid_torchrec.checkpoint.folder import Entry
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.serving.id_shards import Share
from hybrid_torchrec.serving.record import Changes, Record
from hybrid_torchrec.table.hash_table import HashTable
from hybrid_torchrec.table_config import TableConfig

_BLOCK = 16384  # rows applied between two lookups


class ServedShard:
    """Tables of one shard as of record `sequence`, and its share of the ids of each. One thread applies; any number
    look up."""

    def __init__(
        self,
        sequence: int,
        step: int,
        tables: dict[str, HashTable],
        defaults: dict[str, Tensor],
        shares: dict[str, Share],
    ) -> None:
        self.sequence = sequence
        self.step = step
        self._tables = tables
        self._defaults = defaults
        self.shares = shares

    @classmethod
    def load(cls, base: Entry) -> ServedShard:
        """From a base; raises CorruptCheckpoint, and StorageFailure if it is removed meanwhile."""
        manifest = Manifest.read(base.path)
        with explained(base.path, "loading"):
            manifest.verify(base.path)
        tables, defaults, shares = {}, {}, {}
        for name, info in manifest.tables.items():
            source = ServingTable(base.path, name, verify=False)
            table = HashTable(_config(name, info), torch.device("cpu"))
            ids = source.ids()
            for block in ids.split(_BLOCK):
                table.write(_rows(block, source.lookup(block)[0].to(table.config.dtype)))
            tables[name], defaults[name], shares[name] = table, source.default, _share(base, name, info)
        return cls(base.step, -1, tables, defaults, shares)

    def __contains__(self, table: str) -> bool:
        return table in self._tables

    @property
    def tables(self) -> dict[str, int]:
        """{table: rows}"""
        return {name: len(table) for name, table in self._tables.items()}

    def width(self, table: str) -> int:
        """Columns."""
        return self._defaults[table].numel()

    def apply(self, record: Record) -> None:
        """Raises CorruptCheckpoint if the record does not follow, or is of tables that the base does not have."""
        unknown = sorted(record.tables.keys() - self._tables.keys())
        if record.sequence != self.sequence + 1 or unknown:
            what = f"has tables that its base lacks: {', '.join(unknown)}" if unknown else "is out of order"
            raise CorruptCheckpoint(f"record {record.sequence} {what}; after {self.sequence}")
        for name, changes in record.tables.items():
            self._apply(self._tables[name], changes)
        self.sequence, self.step = record.sequence, record.step

    def lookup(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids int64 (L,) -> float32 (L, D), bool (L,); the default row where an id is absent."""
        batch, found = self._tables[table].read(ids)
        rows = self._defaults[table].expand(len(ids), -1).clone()
        rows[found] = batch.weights.float()
        return rows, found

    @staticmethod
    def _apply(table: HashTable, changes: Changes) -> None:
        for gone in changes.erased.split(_BLOCK):
            table.erase(gone)
        for ids, weights in zip(changes.ids.split(_BLOCK), changes.weights.split(_BLOCK), strict=True):
            table.write(_rows(ids, weights.to(table.config.dtype)))


def _share(base: Entry, name: str, info: dict[str, object]) -> Share:
    shares = info.get("shares")
    if not isinstance(shares, list) or len(shares) != 1:
        raise CorruptCheckpoint(
            f"{base.path}: does not say which ids of table {name!r} it has; publish with the version that serves"
        )
    shard, of = shares[0]
    return int(shard), int(of)


def _config(name: str, info: dict[str, object]) -> TableConfig:
    dtype = torch.float32 if info["dtype"] == "int8" else getattr(torch, str(info["dtype"]))
    return TableConfig(
        name=name,
        dim=int(str(info["dim"])),
        dtype=dtype,
        optimizer=OptimizerSpec(kind="sgd"),
        initial_capacity=int(str(info["rows"])),
    )


def _rows(ids: Tensor, weights: Tensor) -> RowBatch:
    zeros = torch.zeros(len(ids))
    return RowBatch(
        ids=ids,
        weights=weights,
        state={},
        shows=zeros,
        clicks=zeros,
        last_step=torch.zeros(len(ids), dtype=torch.int64),
    )
