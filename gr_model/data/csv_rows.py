"""Blocks of rows of a delimited text file as NumPy columns; a row that does not fit is left out and reported.

PyArrow reads the text, so that a file of any size takes the memory of some blocks, and names the lines with a wrong number
of fields. Values are converted column by column; only where that fails are they looked at one at a time.
"""

from __future__ import annotations

import csv as csv_text
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from gr_model.common import in_image
from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.interactions import DataError

BLOCK = 1 << 20  # bytes of text; PyArrow reads up to 32 of them ahead

TYPES = {"int": pa.int64(), "float": pa.float64()}
CASTS = {"int": int, "float": float}


def read(
    path: Path,
    columns: Sequence[Column],
    bad: BadRows,
    *,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    quoted: bool = False,
    block: int = BLOCK,
) -> Iterator[dict[str, np.ndarray]]:
    """See columns.read_blocks."""
    names = header_of(path, delimiter, quoted) if header is None else list(header)
    missing = [column.name for column in columns if column.name not in names]
    if missing:
        raise DataError(f"{path}:1: header lacks {', '.join(missing)}; it has {', '.join(names)}")
    wanted = [column.name for column in columns]
    first = 2 if header is None else 1
    for batch, lines in batches(path, names, wanted, bad, first, delimiter=delimiter, quoted=quoted, block=block):
        yield _converted(path, batch, columns, bad, lines)


def batches(
    path: Path,
    names: Sequence[str],
    wanted: Sequence[str],
    bad: BadRows,
    first: int,
    *,
    delimiter: str = ",",
    quoted: bool = False,
    block: int = BLOCK,
) -> Iterator[tuple[pa.RecordBatch, Lines]]:
    """The columns `wanted` among `names` as bytes, from line `first` on, without the rows of a wrong number of fields.

    DataError for a file that cannot be read to its end.
    """
    lines, text = Lines(first), _Text(path)

    def on_invalid(row: csv.InvalidRow) -> str:
        lines.skipped.append(row.number)
        bad.read(1)
        bad.add(path, row.number, f"expected {row.expected_columns} fields, got {row.actual_columns}")
        return "skip"

    # Quotes count only where the file has them (`quoted`): one that is not closed would swallow the rows after it.
    reader = csv.open_csv(
        text,
        read_options=csv.ReadOptions(
            column_names=list(names), skip_rows=first - 1, use_threads=False, block_size=block
        ),
        parse_options=csv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if quoted else False,
            invalid_row_handler=on_invalid,
            ignore_empty_lines=False,
            newlines_in_values=False,
        ),
        convert_options=csv.ConvertOptions(
            include_columns=list(wanted),
            column_types={name: pa.binary() for name in wanted},
            strings_can_be_null=False,
        ),
    )
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            if quoted and text.lines > first - 1 + lines.rows + len(lines.skipped):
                _refuse_open_quote(path, delimiter)
            return
        except pa.ArrowInvalid as error:
            if quoted:
                _refuse_open_quote(path, delimiter)
            raise DataError(f"{path}: not readable after row {lines.rows}: {error}") from None
        yield batch, lines
        lines.rows += batch.num_rows
        bad.read(batch.num_rows)


class _Text:
    """A file's bytes, unpacked; counts the lines as they are read."""

    def __init__(self, path: Path) -> None:
        self._stream = pa.input_stream(str(path), compression="detect")
        self._breaks, self._last = 0, b"\n"
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        read: bytes = self._stream.read(None if size < 0 else size)
        self._breaks += read.count(b"\n")
        self._last = read[-1:] or self._last
        return read

    def close(self) -> None:
        self._stream.close()
        self.closed = True

    @property
    def lines(self) -> int:
        return self._breaks + (self._last != b"\n")


def _refuse_open_quote(path: Path, delimiter: str) -> None:
    """DataError with the first line that ends inside a quoted value: the lines after it are in that value, and no rows."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if b'"' not in line:
                continue
            try:
                list(csv_text.reader([line.decode("latin-1")], delimiter=delimiter, strict=True))
            except csv_text.Error as error:
                if "unexpected end" not in str(error):  # what stands behind a closing quote is PyArrow's to judge
                    continue
                raise DataError(
                    f"{path}:{number}: the line ends inside a quoted value, and a row is one line\n"
                    "  next: close the quote, or give rows of several lines as Parquet or JSON lines"
                ) from None


@dataclass
class Lines:
    """From the number of a good row to the number of its line: lines that were skipped lie between."""

    first: int
    rows: int = 0

    def __post_init__(self) -> None:
        self.skipped: list[int] = []

    def of(self, row: int) -> int:
        line = self.first + self.rows + row
        for skipped in sorted(self.skipped):
            if skipped > line:
                break
            line += 1
        return line


def header_of(path: Path, delimiter: str, quoted: bool = False) -> list[str]:
    """The names in the first line. DataError for a file that cannot be read."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            first = file.readline()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {in_image.fetch_data(path.parent)}") from None
    except OSError as error:
        raise DataError(f"{path}: {error}") from None
    try:
        line = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(f"{path}:1: not UTF-8 text") from None
    fields = next(csv_text.reader([line], delimiter=delimiter), []) if quoted else line.split(delimiter)
    return [name.strip().strip('"') for name in fields]


def _converted(
    path: Path, batch: pa.RecordBatch, columns: Sequence[Column], bad: BadRows, lines: Lines
) -> dict[str, np.ndarray]:
    """The columns without the rows that have a value that does not fit."""
    reasons: dict[int, str] = {}
    values: dict[str, np.ndarray] = {}
    for column in columns:
        values[column.name] = _column(batch.column(column.name), column, reasons)
    for row in sorted(reasons):
        bad.add(path, lines.of(row), reasons[row])
    if reasons:
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[list(reasons)] = False
        values = {name: array[keep] for name, array in values.items()}
    return values


def _column(array: pa.Array, column: Column, reasons: dict[int, str]) -> np.ndarray:
    if column.kind == "text":
        return _texts(array, column, reasons)
    try:
        # The C parser takes what Python's int and float take, but for blanks and signs: those go the slow way.
        numbers = pc.cast(pc.cast(array, pa.string()), TYPES[column.kind]).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = np.array([_number(value, column, row, reasons) for row, value in enumerate(array.to_pylist())])
        numbers = numbers.astype(np.int64 if column.kind == "int" else np.float64)
    outside = ~((numbers >= column.low) & (numbers <= column.high))
    for row in np.flatnonzero(outside):
        bounds = f"from {column.low:g} to {column.high:g}"
        reasons.setdefault(int(row), f"{column.name} must be {bounds}, got {numbers[row]:g}")
    return numbers


def _number(value: bytes, column: Column, row: int, reasons: dict[int, str]) -> Any:
    try:
        return CASTS[column.kind](value.decode())
    except (ValueError, UnicodeDecodeError):
        shown = value.decode("utf-8", "backslashreplace")
        reasons.setdefault(row, f"{column.name} is not a number: {shown!r}")
        return max(column.low, 0) if column.low > -np.inf else 0


def _texts(array: pa.Array, column: Column, reasons: dict[int, str]) -> np.ndarray:
    try:
        texts = pc.cast(array, pa.string()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        texts = np.array([_decoded(value, column, row, reasons) for row, value in enumerate(array.to_pylist())], object)
    for row in np.flatnonzero(texts == ""):
        reasons.setdefault(int(row), f"empty {column.name}")
    return texts


def _decoded(value: bytes, column: Column, row: int, reasons: dict[int, str]) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        reasons.setdefault(row, f"{column.name} is not UTF-8 text: {value!r}")
        return "?"
