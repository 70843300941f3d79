"""Rows of a user's own files as text columns, batch by batch: CSV, Parquet, JSON lines.

Whatever a format has (numbers, times, lists, truth values) becomes the text that a CSV would have, so that there is one
way to check a value. Memory is that of one batch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gr_model.config import advice
from gr_model.data import csv_rows
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError

ROWS = 1 << 17  # of a batch of Parquet or JSON
SEPARATOR = "|"  # between labels of one row
DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True)
class Batch:
    """`columns` are of pa.string() without nulls and blanks around; `line(row)` is the place in the file, from 1."""

    path: Path
    columns: dict[str, pa.Array]
    rows: int
    line: Callable[[int], int]
    faults: dict[int, str]  # by row: what could not become text


def read(path: Path, wanted: dict[str, str], delimiter: str, bad: BadRows) -> Iterator[Batch]:
    """`wanted` has the columns, each with the setting that names it. DataError for a file that lacks one."""
    if path.suffix == ".parquet":
        return _parquet(path, wanted, bad)
    if _plain_suffix(path) in (".jsonl", ".ndjson"):
        return _json_lines(path, wanted, bad)
    return _csv(path, wanted, delimiter or ("\t" if _plain_suffix(path) == ".tsv" else ","), bad)


def _plain_suffix(path: Path) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _csv(path: Path, wanted: dict[str, str], delimiter: str, bad: BadRows) -> Iterator[Batch]:
    delimiter = delimiter.replace("\\t", "\t")
    names = csv_rows.header_of(path, delimiter, quoted=True)
    _check(f"{path}:1", names, wanted, delimiter)
    for batch, lines in csv_rows.batches(path, names, list(wanted), bad, 2, delimiter=delimiter, quoted=True):
        faults: dict[int, str] = {}
        columns = {name: _decoded(batch.column(name), name, faults) for name in wanted}
        yield Batch(path, columns, batch.num_rows, lines.of, faults)


def _parquet(path: Path, wanted: dict[str, str], bad: BadRows) -> Iterator[Batch]:
    """A row's "line" is its number."""
    before = 0
    try:
        with pq.ParquetFile(path) as file:
            _check(str(path), file.schema_arrow.names, wanted)
            for batch in file.iter_batches(ROWS, columns=list(wanted), use_threads=False):
                columns = {name: _as_text(path, name, batch.column(name)) for name in wanted}
                yield Batch(path, columns, batch.num_rows, range(before + 1, before + 1 + batch.num_rows).__getitem__, {})
                before += batch.num_rows
                bad.read(batch.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as Parquet after row {before}: {error}") from None


def _as_text(path: Path, name: str, array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _as_text(path, name, array.dictionary_decode())
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.int8())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        array = pc.binary_join(pc.cast(array, pa.list_(pa.string())), SEPARATOR)
    elif pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), None, array)
        whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), 2.0**53))
        # Whole numbers beside missing ones come as 1.0 from pandas.
        array = array if pc.all(whole).as_py() is False else pc.cast(array, pa.int64())
    elif pa.types.is_nested(kind):
        raise DataError(f"{path}: column {name} is {kind}, and neither text, number, time nor a list of texts")
    return _clean(pc.cast(array, pa.string()))


def _json_lines(path: Path, wanted: dict[str, str], bad: BadRows) -> Iterator[Batch]:
    number = 0
    texts: dict[str, list[str]] = {name: [] for name in wanted}
    lines: list[int] = []
    faults: dict[int, str] = {}

    def taken() -> Batch:
        nonlocal texts, lines, faults
        columns = {name: _clean(pa.array(values, pa.string())) for name, values in texts.items()}
        batch = Batch(path, columns, len(lines), lines.__getitem__, faults)
        texts, lines, faults = {name: [] for name in wanted}, [], {}
        return batch

    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                bad.read(1)
                try:
                    row = _row(line, wanted)
                except ValueError as error:
                    faults[len(lines)] = str(error)
                    row = dict.fromkeys(wanted, "")
                for name, text in row.items():
                    texts[name].append(text)
                lines.append(number)
                if len(lines) == ROWS:
                    yield taken()
    except (EOFError, OSError) as error:
        raise DataError(f"{path}: not readable after line {number}: {error}") from None
    yield taken()


def _row(line: bytes, wanted: dict[str, str]) -> dict[str, str]:
    """ValueError says what does not fit."""
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except ValueError as error:
        raise ValueError(f"not a JSON object: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    missing = [name for name in wanted if name not in row]
    if missing:
        raise ValueError(f"lacks {_named(missing, wanted)}; it has {', '.join(row)}")
    return {name: _json_text(name, row[name]) for name in wanted}


def _json_text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return SEPARATOR.join(value)
    if isinstance(value, str | int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise ValueError(f"{name} must be text, a number or a list of texts, got {json.dumps(value)[:40]}")


def _decoded(array: pa.Array, name: str, faults: dict[int, str]) -> pa.Array:
    try:
        return _clean(pc.cast(array, pa.string()))
    except pa.ArrowInvalid:
        texts = []
        for row, value in enumerate(array.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                faults.setdefault(row, f"{name} is not UTF-8 text: {value[:40]!r}")
                texts.append("")
        return _clean(pa.array(texts, pa.string()))


def _clean(array: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(pc.fill_null(array, ""))


def _check(where: str, names: list[str], wanted: dict[str, str], delimiter: str = "") -> None:
    if delimiter and not any(names):
        raise DataError(f"{where}: the first line is empty, and the names of the columns stand there")
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise DataError(
            f"{where}: there is more than one column {_named(twice, wanted)}\n"
            "  next: give each a name of its own: only one of them can be read"
        )
    missing = [name for name in wanted if name not in names]
    if not missing:
        return
    if delimiter and len(names) == 1 and (other := [each for each in DELIMITERS if each in names[0]]):
        shown = "\\t" if other[0] == "\t" else other[0]
        raise DataError(
            f"{where}: the header has one column between {delimiter!r}: {names[0]}\n"
            f"  next: the same command with 'data.delimiter={shown}'"
        )
    likely = advice.meant(missing[0], names) or ["COLUMN"]
    following = f"the same command with {wanted[missing[0]]}={likely[0]}, the name that the file has"
    if delimiter and any(name.isdigit() for name in names):
        following = f"put a line with the columns' names before it, if that is a row; else {following}"
    raise DataError(
        f"{where}: there is no column {_named(missing, wanted)}; it has {', '.join(names)}\n  next: {following}"
    )


def _named(missing: Sequence[str], wanted: dict[str, str]) -> str:
    return ", ".join(f"{name} ({wanted[name]})" for name in missing)
