"""A user's own file, or folder of files, as a Source: `data.path` and the columns that the settings name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gr_model.common import in_image
from gr_model.config import DataConfig
from gr_model.config.data import OF_OWN
from gr_model.data import own_tables
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError
from gr_model.data.own_values import Flags, Labels, Ratings, flags, times
from gr_model.data.source import Rows, Source, UserFeatures

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson")
PACKED = tuple(f"{suffix}.gz" for suffix in SUFFIXES if suffix != ".parquet")
HOPELESS = 1000  # bad rows, if they are most of what was read, end the reading before the file ends


def name_of(data: DataConfig) -> str:
    """A folder's name for the shards: by the file's name, its place and the columns."""
    said = {name: getattr(data, name) for name in OF_OWN}
    stem = Path(data.path).name.partition(".")[0]
    return f"{stem}-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]}"


def place(data: DataConfig) -> tuple[Path, tuple[str, ...]]:
    """The folder, and the files in it. DataError where there are none, or of no kind that can be read."""
    path = Path(data.path)
    if path.is_dir():
        names = tuple(sorted(each.name for each in path.iterdir() if _readable(each) and each.name[0] not in "._"))
        kinds = {name.partition(".")[2].removesuffix(".gz").rpartition(".")[2] for name in names}
        if len(kinds) != 1:
            found = f"files of several kinds: {', '.join(sorted(kinds))}" if kinds else "no file that can be read"
            raise DataError(f"{path}: has {found}; valid: {', '.join(SUFFIXES + PACKED)}")
        return path, names
    if not path.exists():
        mount = f'; in the image, mount its folder: docker run -v "$PWD:{path.parent}" ...' if in_image.inside() else ""
        raise DataError(f"{path}: no such file\n  next: the same command with data.path=FILE{mount}")
    if not _readable(path):
        raise DataError(f"{path}: is of no kind that can be read; valid: {', '.join(SUFFIXES + PACKED)}")
    return path.parent, (path.name,)


def source(data: DataConfig, files: tuple[str, ...] = ()) -> Source:
    """`files` are named as in `place`."""
    reader = _Reader(data, files)
    return Source(
        name=Path(data.path).name,
        files=files,
        rows=reader.rows,
        action_values=(),
        features=reader.features,
        found_actions=reader.meaning,
        at_least=data.at_least,
        ticks=1_000_000,
        by_content=True,
    )


def _readable(path: Path) -> bool:
    return path.name.endswith(SUFFIXES + PACKED)


class _Reader:
    def __init__(self, data: DataConfig, files: tuple[str, ...]) -> None:
        self.data, self.files = data, files
        self.labels = _labels(data)
        self.bits = Flags(data.actions) if data.kind_of_actions == "flags" else None
        self.users = _Users(data.features)

    def rows(self, folder: Path, bad: BadRows) -> Rows:
        for file in self.files:
            for batch in own_tables.read(folder / file, self.data.columns, self.data.delimiter, bad):
                yield self._block(batch, bad)
                if bad.count > HOPELESS and 2 * bad.count > bad.rows:
                    bad.check()

    def features(self, folder: Path, bad: BadRows) -> UserFeatures:
        return self.users.features()

    def meaning(self) -> tuple[tuple[float, ...], dict[str, np.ndarray]]:
        if self.labels:
            return self.labels.meaning()
        return self.bits.meaning() if self.bits else ((1.0,), {"seen": np.ones(1, bool)})

    def _block(self, batch: own_tables.Batch, bad: BadRows) -> dict[str, np.ndarray]:
        data, columns, faults = self.data, batch.columns, dict(batch.faults)
        user, item = columns[data.user], columns[data.item]
        empty = {name: pc.equal(column, "").to_numpy(zero_copy_only=False) for name, column in columns.items()}
        for name in (data.user, data.item):
            for row in np.flatnonzero(empty[name]):
                faults.setdefault(int(row), f"empty {name}")
        time = times(columns[data.time], data.time, data.time_unit, faults)
        action = np.zeros(batch.rows, np.int64)
        for bit, name in enumerate(data.actions if self.bits else ()):
            action |= flags(columns[name], name, faults) << bit
        if self.labels:
            action = self.labels.codes(columns[data.actions[0]], faults)
        blank = np.logical_and.reduce(list(empty.values()))  # an empty line, which is no row
        for row in sorted(faults):
            if row in batch.faults or not blank[row]:
                bad.add(batch.path, batch.line(row), faults[row])
        keep = np.ones(batch.rows, bool)
        keep[list(faults)] = False
        mask = pa.array(keep)
        user, item = user.filter(mask), item.filter(mask)
        self.users.add(user, [columns[name].filter(mask) for name in data.features])
        return {
            "user": user.to_numpy(zero_copy_only=False),
            "item": item.to_numpy(zero_copy_only=False),
            "action": action[keep],
            "time": time[keep],
        }


def _labels(data: DataConfig) -> Labels | Ratings | None:
    if data.kind_of_actions == "labels":
        return Labels(data.actions[0])
    return Ratings(data.actions[0]) if data.kind_of_actions == "ratings" else None


class _Users:
    """The features of each user in the user's first row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.code_of: list[dict[str, int]] = [{} for _ in names]
        self.codes: dict[int | str, tuple[int, ...]] = {}

    def add(self, user: pa.Array, columns: list[pa.Array]) -> None:
        if not self.names or not len(user):
            return
        encoded = user.dictionary_encode()
        first = np.unique(encoded.indices.to_numpy(), return_index=True)[1]
        values = list(zip(*(column.take(pa.array(first)).to_pylist() for column in columns)))
        for name, of_user in zip(encoded.dictionary.to_pylist(), values):
            if name not in self.codes:
                self.codes[name] = tuple(known.setdefault(v, len(known)) for known, v in zip(self.code_of, of_user))

    def features(self) -> UserFeatures:
        sizes = {name: len(known) + 1 for name, known in zip(self.names, self.code_of)}
        return UserFeatures(sizes, self.codes)

