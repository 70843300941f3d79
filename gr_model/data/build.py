"""From the files of a data set to shards, once: rows are spilled by user, then ordered by time, bucket by bucket.

Memory: one block of text, one bucket of rows, and a number per user and per item.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from gr_model.common.ticker import Say, Ticker
from gr_model.data import fingerprint
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError
from gr_model.data.shards import ShardWriter, put, refuse_foreign
from gr_model.data.source import Source

BUCKET = 1 << 30  # bytes of text for one bucket, which takes about a third of that in memory
PACKED = 5  # how much larger the text behind a .gz or .parquet is
ROW = np.dtype([("user", np.int32), ("item", np.int32), ("action", np.int16), ("time", np.int64)])


class Ids:
    """Dense ids in the order of first appearance."""

    def __init__(self) -> None:
        self.code_of: dict[int | str, int] = {}

    def codes(self, values: np.ndarray) -> np.ndarray:
        """int32, of the shape of `values`."""
        encoded = pa.array(values).dictionary_encode()
        known = self.code_of
        table = [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()]
        if len(known) > np.iinfo(np.int32).max:
            raise DataError("more ids than 32 bits can number")
        return np.array(table, np.int32)[encoded.indices.to_numpy()]


def build(source: Source, folder: Path, shards: Path, bad: BadRows, say: Say = print) -> None:
    """Writes the shards of the data set in `folder` as the folder `shards`, whole or not at all."""
    refuse_foreign(shards)
    files = fingerprint.of(source, folder, say)
    shards.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{shards.name}.", dir=shards.parent) as name:
        scratch = Path(name)
        users, items = Ids(), Ids()
        buckets = _buckets(folder, files, scratch)
        say(f"{source.name}: reading {', '.join(source.files)}")
        _spill(source, folder, buckets, users, items, bad, say)
        bad.check()
        bad.tell(say)
        features = source.features(folder, bad)
        bad.check()
        keep_user, keep_item = _kept(buckets, len(users.code_of), len(items.code_of), source.at_least)
        new_item = np.cumsum(keep_item) - 1
        action_values, tasks = source.found_actions() if source.found_actions else (source.action_values, source.tasks)
        out = scratch / "shards"
        names = np.array(list(users.code_of), dtype=object)
        shown, tick = int(keep_user.sum()), Ticker(say)
        say(f"{source.name}: ordering the rows of {shown:,} users by time, and writing them")
        written = 0
        with ShardWriter(out, int(keep_item.sum()), len(action_values)) as writer:
            for bucket in buckets:
                rows = np.fromfile(bucket, ROW)
                rows = rows[keep_user[rows["user"]] & keep_item[rows["item"]]]
                rows = rows[np.lexsort((rows["time"], rows["user"]))]  # stable: equal times stay in the file's order
                starts = np.flatnonzero(np.diff(rows["user"], prepend=-1))
                for one in np.split(rows, starts[1:]) if len(rows) else []:
                    user = names[one["user"][0]]
                    writer.add(
                        user, new_item[one["item"]], one["action"], one["time"] // source.ticks, features.of(user)
                    )
                    written += 1
                    tick(f"{source.name}: {written:,} of {shown:,} users written so far")
                bucket.unlink()
            writer.name_items(id for id, kept in zip(items.code_of, keep_item) if kept)
            writer.finish(
                name=source.name,
                action_values=action_values,
                feature_sizes=features.sizes,
                tasks={task: labels.astype(int).tolist() for task, labels in tasks.items()},
                at_least=source.at_least,
                files=files,
                content=fingerprint.content(files),
                bad_rows=bad.as_json(),
            )
        put(out, shards)


def _buckets(folder: Path, names: Iterable[str], scratch: Path) -> list[Path]:
    sizes = [(folder / name).stat().st_size * (PACKED if name.endswith((".gz", ".parquet")) else 1) for name in names]
    return [scratch / f"bucket-{index}" for index in range(1 + sum(sizes) // BUCKET)]


def _spill(
    source: Source,
    folder: Path,
    buckets: list[Path],
    users: Ids,
    items: Ids,
    bad: BadRows,
    say: Say,
) -> None:
    files = [bucket.open("wb") for bucket in buckets]
    tick = Ticker(say)
    try:
        for block in source.rows(folder, bad):
            rows = np.empty(len(block["user"]), ROW)
            rows["user"], rows["item"] = users.codes(block["user"]), items.codes(block["item"])
            rows["action"], rows["time"] = block["action"], block["time"]
            for index, file in enumerate(files):
                (rows if len(files) == 1 else rows[rows["user"] % len(files) == index]).tofile(file)
            tick(
                f"{source.name}: {bad.rows:,} rows, {len(users.code_of):,} users, "
                f"{len(items.code_of):,} items so far"
            )
    finally:
        for file in files:
            file.close()


def _kept(buckets: list[Path], users: int, items: int, at_least: int) -> tuple[np.ndarray, np.ndarray]:
    """[users], [items] bool: those with enough rows."""
    of_user, of_item = np.zeros(users, np.int64), np.zeros(items, np.int64)
    for bucket in buckets:
        rows = np.fromfile(bucket, ROW)
        of_user += np.bincount(rows["user"], minlength=users)
        of_item += np.bincount(rows["item"], minlength=items)
    if not of_user.sum():
        raise DataError("the data set has no rows")
    return of_user >= at_least, of_item >= at_least
