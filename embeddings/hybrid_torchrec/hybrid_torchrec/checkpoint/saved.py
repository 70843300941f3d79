"""SavedTables: the tables of a checkpoint's files, read part by part, without ranks and without tables in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.checkpoint.utils import _create_file_view

from hybrid_torchrec.checkpoint.errors import NoCheckpoint, explained
from hybrid_torchrec.checkpoint.manifest import Manifest
from hybrid_torchrec.checkpoint.parts import ERASED, INFO, POLICY, Key, Rows
from hybrid_torchrec.checkpoint.tables import overlapping, policies_merged
from hybrid_torchrec.hashing import rank_of
from hybrid_torchrec.row_batch import RowBatch


class SavedTables:
    """One complete checkpoint, full or delta, after its checksums were compared."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = Manifest.read(path)
        self.manifest.verify(path)
        reader = FileSystemReader(path)
        self._metadata: Metadata = reader.read_metadata()
        self._places = {index.fqn: place for index, place in self._metadata.storage_data.items()}
        self._keys: dict[str, dict[Key, str]] = {}
        for key in self._metadata.state_dict_metadata:
            table, found, rest = key.partition(".shard-")
            place = Key.parse(table, f"{table}.shard-{rest}") if found else None
            if place is not None:
                self._keys.setdefault(table, {})[place] = key

    def tables(self) -> list[str]:
        return sorted(self._keys)

    def shards(self, table: str) -> list[tuple[int, int]]:
        """(shard, shards) of each that was saved."""
        return sorted({(place.shard, place.shards) for place in self._of(table)})

    def parts(self, table: str, shard: int) -> list[int]:
        return sorted({place.part for place in self._of(table) if place.shard == shard and place.part is not None})

    def info(self, table: str, shard: int) -> dict[str, Any]:
        return dict(self._read(table, shard, None, INFO))

    def erased(self, table: str, shard: int) -> Tensor:
        """Ids (E,); none in a full checkpoint."""
        there = any(place.shard == shard and place.field == ERASED for place in self._of(table))
        return self._read(table, shard, None, ERASED) if there else torch.empty(0, dtype=torch.int64)

    def policy(self, table: str, shard: int) -> dict[str, Tensor]:
        names = [place.field for place in self._of(table) if place.shard == shard and place.field.startswith(POLICY)]
        return {name.removeprefix(POLICY): self._read(table, shard, None, name) for name in names}

    def ids(self, table: str, shard: int, part: int) -> Tensor:
        return self._read(table, shard, part, "ids")

    def rows(self, table: str, shard: int, part: int) -> RowBatch:
        names = [place.field for place in self._of(table) if place.shard == shard and place.part == part]
        return RowBatch.from_named_tensors({name: self._read(table, shard, part, name) for name in names})

    def dense(self) -> dict[str, Any]:
        """Everything but the tables, nested as it was saved; sharded tensors in one piece."""
        tables = {key for keys in self._keys.values() for key in keys.values()}
        state: dict[str, Any] = {}
        _load_state_dict(state, FileSystemReader(self.path), no_dist=True, planner=_WithoutTables(tables))
        return state

    def _of(self, table: str) -> dict[Key, str]:
        if table not in self._keys:
            raise NoCheckpoint(f"{self.path}: no table {table!r}; there are: {', '.join(self.tables()) or 'none'}")
        return self._keys[table]

    def _read(self, table: str, shard: int, part: int | None, field: str) -> Any:
        keys = self._of(table)
        place = self._places[
            next(keys[key] for key in keys if (key.shard, key.part, key.field) == (shard, part, field))
        ]
        path = self.path / place.relative_path
        with explained(path, "reading"), path.open("rb") as file:
            return torch.load(_create_file_view(file, place.offset, place.length), weights_only=True)


class _WithoutTables(_EmptyStateDictLoadPlanner):
    def __init__(self, tables: set[str]) -> None:
        super().__init__()
        self._tables = tables

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        assert metadata is not None
        rest = {key: value for key, value in metadata.state_dict_metadata.items() if key not in self._tables}
        super().set_up_planner(state_dict, replace(metadata, state_dict_metadata=rest), is_coordinator)


@dataclass(frozen=True)
class _Segment:
    """Rows `index` of a saved part."""

    saved: SavedTables
    table: str
    shard: int
    part: int
    index: Tensor


def merged(chain: list[SavedTables], table: str, shard: int, shards: int) -> Rows:
    """The rows of a full checkpoint after its deltas, on one shard of the last; needs memory for ids and one part."""
    segments: list[_Segment] = []
    gone = torch.empty(0, dtype=torch.int64)  # erased or replaced later on
    for saved in reversed(chain):
        if table not in saved.tables():
            continue
        mine = [s for s, n in saved.shards(table) if overlapping(shard, shards, s, n)]
        seen = [gone]
        for source in mine:
            for part in saved.parts(table, source):
                ids = saved.ids(table, source, part)
                keep = (rank_of(ids, shards) == shard) & ~torch.isin(ids, gone)
                segments.append(_Segment(saved, table, source, part, keep.nonzero()[:, 0]))
                seen.append(ids)
        # Erased ids that came again are among the rows of the same delta, which were taken above.
        gone = torch.cat(seen + [saved.erased(table, source) for source in mine]) if saved is not chain[0] else gone
    last = chain[-1]
    sources = [s for s, n in last.shards(table) if overlapping(shard, shards, s, n)]
    info = last.info(table, sources[0])
    policy = policies_merged([last.policy(table, source) for source in sources])
    return _rows_of(segments, info, policy)


def _rows_of(segments: list[_Segment], info: dict[str, Any], policy: dict[str, Tensor]) -> Rows:
    segments = [segment for segment in segments if len(segment.index)]
    ends = torch.tensor([len(segment.index) for segment in segments], dtype=torch.int64).cumsum(0).tolist()
    empty = RowBatch.empty(info["dim"], info["state"], getattr(torch, info["dtype"]))
    held: list[tuple[_Segment, RowBatch]] = []

    def load(segment: _Segment) -> RowBatch:
        if not held or held[0][0] is not segment:
            held[:] = [(segment, segment.saved.rows(segment.table, segment.shard, segment.part))]
        return held[0][1]

    def pieces(first: int, last: int) -> Iterator[RowBatch]:
        begin = 0
        for segment, end in zip(segments, ends, strict=True):
            if begin < last and first < end:
                yield load(segment).select(segment.index[max(first - begin, 0) : last - begin])
            begin = end

    def read(first: int, last: int) -> RowBatch:
        return RowBatch.concat([empty, *pieces(first, last)])

    return Rows(ends[-1] if ends else 0, empty, read, info, policy)
