"""RecBole's atomic files: tab-separated text, the first line `name:type` for each column."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path

import numpy as np

from gr_model.common import in_image
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError


class AtomicFile:
    """Text columns by name, of the lines with the right number of fields.

    `numbers`, `known` and `unique` mark rows that do not fit; `good` reports the marked ones with their lines and gives
    the others. DataError for a file that is missing, empty or without one of `columns`; `optional` ones may be missing.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        self.path = path
        try:
            first, *lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; {in_image.fetch_data(path.parent)}") from None
        header = [column.partition(":")[0] for column in first.decode("utf-8", "replace").split("\t")]
        missing = [column for column in columns if column not in header]
        if missing:
            raise DataError(f"{path}:1: header lacks {', '.join(missing)}; it has {', '.join(header)}")
        if not lines:
            raise DataError(f"{path}:2: no rows")
        self.rows = len(lines)  # good or bad
        self.faults: dict[int, str] = {}  # by line; the first of each
        self.lines: list[int] = []  # of the rows of `text`
        rows = []
        for number, line in enumerate(lines, start=2):
            row = self._fields(number, line, len(header))
            if row:
                self.lines.append(number)
                rows.append(row)
        columns += tuple(column for column in optional if column in header)
        self.text = {column: [row[header.index(column)] for row in rows] for column in columns}

    def numbers(self, column: str, kind: Callable[[str], float] = float) -> np.ndarray:
        """[rows] float64, nan where there is no number."""
        return np.array([self._number(column, index, kind) for index in range(len(self.lines))], np.float64)

    def known(self, column: str, values: Container[str]) -> None:
        for index, value in enumerate(self.text[column]):
            if value not in values:
                self.mark(index, f"unknown {column} {value!r}")

    def unique(self, column: str) -> None:
        """No empty value, and none that stands in a good row before: call it after the other checks."""
        seen: dict[str, int] = {}
        for index, value in enumerate(self.text[column]):
            if not value:
                self.mark(index, f"empty {column}")
            elif value in seen:
                self.mark(index, f"{column} {value!r} stands already in line {seen[value]}")
            elif self.lines[index] not in self.faults:
                seen[value] = self.lines[index]

    def mark(self, index: int, reason: str) -> None:
        self.faults.setdefault(self.lines[index], reason)

    def good(self, bad: BadRows) -> np.ndarray:
        """Indices of the rows that fit; the others go to `bad`. Once, after all checks."""
        bad.read(self.rows)
        for line in sorted(self.faults):
            bad.add(self.path, line, self.faults[line])
        return np.array([index for index, line in enumerate(self.lines) if line not in self.faults], np.int64)

    def _fields(self, number: int, line: bytes, expected: int) -> list[str]:
        try:
            row = line.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            self.faults[number] = "not UTF-8 text"
            return []
        if len(row) != expected:
            self.faults[number] = f"expected {expected} fields, got {len(row)}"
            return []
        return row

    def _number(self, column: str, index: int, kind: Callable[[str], float]) -> float:
        value = self.text[column][index]
        try:
            number = kind(value)
        except ValueError:
            number = float("nan")
        if not abs(number) < float("inf"):
            self.mark(index, f"{column} is not a number: {value!r}")
            return float("nan")
        return number
