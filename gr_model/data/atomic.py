"""RecBole's atomic files: tab-separated text, the first line `name:type` for each column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gr_model.data.interactions import DataError


class AtomicFile:
    """Text columns by name; `numbers` and `codes` convert them and name the line of whatever does not fit."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; fetch it: inv fetch-data {path.parent.name}") from None
        except UnicodeDecodeError as error:
            line = path.read_bytes()[: error.start].count(b"\n") + 1
            raise DataError(f"{path}:{line}: not UTF-8 text") from None
        lines = text.split("\n")
        header = [column.partition(":")[0] for column in lines[0].split("\t")]
        missing = [column for column in columns if column not in header]
        if missing:
            raise DataError(f"{path}:1: header lacks {', '.join(missing)}; it has {', '.join(header)}")
        if lines[-1] == "":
            lines.pop()
        rows = [line.split("\t") for line in lines[1:]]
        for number, row in enumerate(rows, start=2):
            if len(row) != len(header):
                raise DataError(f"{path}:{number}: expected {len(header)} fields, got {len(row)}")
        if not rows:
            raise DataError(f"{path}:2: no rows")
        self.text = {column: [row[header.index(column)] for row in rows] for column in columns}

    def numbers(self, column: str, kind: Callable[[str], float] = float) -> list[float]:
        return [self._convert(column, index, kind) for index in range(len(self.text[column]))]

    def codes(self, column: str, index_of: dict[str, int]) -> list[int]:
        """The dense id of each value; a value that `index_of` does not list is an error."""
        out = []
        for row, value in enumerate(self.text[column]):
            if value not in index_of:
                raise DataError(f"{self.path}:{row + 2}: unknown {column} {value!r}")
            out.append(index_of[value])
        return out

    def distinct(self, column: str) -> dict[str, int]:
        """Value -> dense id in the order of the file; a repeated value is an error."""
        seen: dict[str, int] = {}
        for row, value in enumerate(self.text[column]):
            if not value:
                raise DataError(f"{self.path}:{row + 2}: empty {column}")
            if value in seen:
                raise DataError(f"{self.path}:{row + 2}: {column} {value!r} stands already in line {seen[value] + 2}")
            seen[value] = row
        return seen

    def _convert(self, column: str, index: int, kind: Callable[[str], float]) -> float:
        value = self.text[column][index]
        try:
            number = kind(value)
        except ValueError:
            number = float("nan")
        if not abs(number) < float("inf"):
            raise DataError(f"{self.path}:{index + 2}: {column} is not a number: {value!r}")
        return number
