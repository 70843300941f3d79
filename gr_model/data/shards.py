"""Histories in Parquet: a row per user, several files, row groups of bounded size; read without loading everything.

manifest.json tells what the data set is and which files make it; lengths.npy holds the interactions of each user, and
item_counts.npy those of each item. items.parquet has the id in the files behind each item number, where there are files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gr_model.data.interactions import DataError, History, Interactions

FORMAT = 1
GROUP_ROWS = 1 << 19  # interactions of a row group: about 7 MB in memory
SHARD_ROWS = 1 << 25
GROUP_USERS = 4096
CACHED_GROUPS = 24
MANIFEST, LENGTHS, COUNTS, ITEMS = "manifest.json", "lengths.npy", "item_counts.npy", "items.parquet"
_OURS = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(LENGTHS)}|{re.escape(COUNTS)}|{re.escape(ITEMS)}|shard-\d+\.parquet")
COLUMNS = ("items", "actions", "times", "features")
SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("items", pa.list_(pa.int32())),
        ("actions", pa.list_(pa.int16())),
        ("times", pa.list_(pa.int64())),
        ("features", pa.list_(pa.int32())),
    ]
)


class ShardWriter:
    """Users are written in the order in which they are added."""

    def __init__(self, folder: Path, items: int, actions: int) -> None:
        folder.mkdir(parents=True)
        self.folder, self.items = folder, items
        self.actions = actions
        self.groups: list[dict[str, int | str]] = []
        self.lengths: list[int] = []
        self.counts = np.zeros(items, np.int64)
        self._file: pq.ParquetWriter | None = None
        self._rows_in_file = self._rows = 0
        self._waiting: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(
        self, user: int | str, items: np.ndarray, actions: np.ndarray, times: np.ndarray, features: Sequence[int]
    ) -> None:
        for name, value in zip(SCHEMA.names, (str(user), items, actions, times, list(features)), strict=True):
            self._waiting[name].append(value)
        self.lengths.append(len(items))
        np.add.at(self.counts, items, 1)
        self._rows += len(items)
        if self._rows >= GROUP_ROWS or len(self._waiting["user"]) >= GROUP_USERS:
            self._flush()

    def name_items(self, ids: Iterable[int | str]) -> None:
        """What the items are called in the files, by number."""
        pq.write_table(pa.table({"item": pa.array(map(str, ids), pa.string())}), self.folder / ITEMS)

    def finish(self, **manifest: Any) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        np.save(self.folder / LENGTHS, np.array(self.lengths, np.int64))
        np.save(self.folder / COUNTS, self.counts)
        record = {"format": FORMAT, "items": self.items, "users": len(self.lengths), "groups": self.groups, **manifest}
        (self.folder / MANIFEST).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def _flush(self) -> None:
        count = len(self._waiting["user"])
        if not count:
            return
        if self._file is not None and self._rows_in_file >= SHARD_ROWS:
            self._file.close()
            self._file = None
        if self._file is None:
            self._name = f"shard-{len({group['file'] for group in self.groups}):05d}.parquet"
            self._file = pq.ParquetWriter(self.folder / self._name, SCHEMA, compression="zstd")
            self._rows_in_file, self._index = 0, 0
        table = pa.table({name: pa.array(self._waiting[name], SCHEMA.field(name).type) for name in SCHEMA.names})
        self._file.write_table(table, row_group_size=count)
        self.groups.append({"file": self._name, "row_group": self._index, "users": count})
        self._index += 1
        self._rows_in_file += self._rows
        self._rows = 0
        self._waiting = {name: [] for name in SCHEMA.names}


class ShardedUsers(Sequence[History]):
    """Histories by user number, read row group by row group; the latest `CACHED_GROUPS` stay in memory.

    Picklable: a worker process opens the files for itself. `group_of` says which users lie together on disk.
    """

    def __init__(self, folder: Path, groups: list[dict[str, Any]], lengths: np.ndarray) -> None:
        self.folder, self.groups = folder, groups
        self._starts = np.concatenate([[0], np.cumsum([group["users"] for group in groups])])
        self._chosen = np.arange(len(lengths))
        self._drop = 0
        self.lengths = lengths
        self._reset()

    def _reset(self) -> None:
        self._cache: OrderedDict[int, dict[str, tuple[np.ndarray, np.ndarray]]] = OrderedDict()
        self._files: dict[str, pq.ParquetFile] = {}

    def select(self, chosen: np.ndarray, drop: int = 0) -> ShardedUsers:
        """A view of these users without their newest `drop` interactions."""
        view = ShardedUsers.__new__(ShardedUsers)
        view.__dict__.update(self.__dict__)
        view._chosen, view._drop = self._chosen[chosen], self._drop + drop
        view.lengths = self.lengths[chosen] - drop
        view._reset()
        return view

    @property
    def group_of(self) -> np.ndarray:
        """[U]: the row group of each user; does not fall."""
        return np.searchsorted(self._starts, self._chosen, side="right") - 1

    def ids(self) -> list[str]:
        """What the users are called in the files."""
        found: list[str] = []
        for group in self.groups:
            with pq.ParquetFile(self.folder / group["file"]) as file:
                found += file.read_row_group(group["row_group"], ["user"])["user"].to_pylist()
        return [found[row] for row in self._chosen]

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> History: ...
    @overload
    def __getitem__(self, index: slice) -> list[History]: ...
    def __getitem__(self, index: int | slice) -> History | list[History]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"user {index} of {len(self)}")
        row = int(self._chosen[index])
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        columns = self._group(group)
        row -= int(self._starts[group])
        parts = []
        for name in COLUMNS:
            values, offsets = columns[name]
            parts.append(values[offsets[row] : offsets[row + 1]].astype(np.int64))
        history = History(*parts)
        return history[: len(history) - self._drop] if self._drop else history

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _group(self, index: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        group = self.groups[index]
        path = self.folder / group["file"]
        try:
            if group["file"] not in self._files:
                self._files[group["file"]] = pq.ParquetFile(path)
            # Without threads: a worker may be a fork of a process whose thread pool is gone.
            table = self._files[group["file"]].read_row_group(group["row_group"], COLUMNS, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: row group {group['row_group']} is not readable ({error}); rm -r {self.folder}") from error
        columns = {}
        for name in COLUMNS:
            array = table.column(name).combine_chunks()
            columns[name] = (array.values.to_numpy(zero_copy_only=False), array.offsets.to_numpy())
        self._cache[index] = columns
        while len(self._cache) > CACHED_GROUPS:
            self._cache.popitem(last=False)
        return columns


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """None if there are no whole shards of this version of the format."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None


def refuse_foreign(folder: Path) -> None:
    """Raises DataError if shards are to be written where something else is: only shards are ever replaced."""
    if not os.path.lexists(folder):
        return
    try:
        names = [] if folder.is_symlink() else os.listdir(folder)
        ours = not folder.is_symlink() and all(_OURS.fullmatch(name) for name in names)
        ours = ours and (not names or "format" in json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        ours = False
    if not ours:
        raise DataError(
            f"{folder}: has files that are not shards, so none are made there\n"
            f"  next: mv {folder} ELSEWHERE, or set GRSTACK_SHARDS to another folder"
        )


def put(made: Path, folder: Path) -> None:
    """Moves shards to `folder`, in the place of older ones."""
    refuse_foreign(folder)
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)


def open_shards(folder: Path, manifest: dict[str, Any]) -> Interactions:
    lengths = np.load(folder / LENGTHS)
    if len(lengths) != manifest["users"]:
        raise DataError(f"{folder}: {len(lengths)} users in {LENGTHS}, {manifest['users']} in {MANIFEST}; rm -r {folder}")
    return Interactions(
        name=manifest["name"],
        users=ShardedUsers(folder, manifest["groups"], lengths),
        items=manifest["items"],
        action_values=tuple(manifest["action_values"]),
        feature_sizes=manifest["feature_sizes"],
        tasks={task: np.array(labels, bool) for task, labels in manifest["tasks"].items()},
        item_ids=folder / ITEMS if (folder / ITEMS).exists() else None,
        content=manifest.get("content", ""),
    )
