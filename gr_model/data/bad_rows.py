"""Rows that do not fit: counted, named by file and line, and too many of them end the reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gr_model.data.interactions import DataError

KEPT = 20  # examples that are told


@dataclass
class BadRows:
    """`limit` is the share of bad rows among all rows of a data set that is still accepted."""

    limit: float = 1e-3
    count: int = 0
    rows: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, path: Path, line: int, reason: str) -> None:
        self.count += 1
        if len(self.examples) < KEPT:
            self.examples.append(f"{path}:{line}: {reason}")

    def read(self, rows: int) -> None:
        """`rows` more were read, good or bad."""
        self.rows += rows

    def check(self) -> None:
        """DataError when more than `limit` of the rows were bad."""
        if self.count > self.limit * self.rows:
            shown = "\n  ".join(self.examples)
            more = f"\n  and {self.count - len(self.examples)} more" if self.count > len(self.examples) else ""
            raise DataError(
                f"{self.count} of {self.rows} rows are bad, more than the accepted share of {self.limit:g}:\n  {shown}{more}\n"
                "  next: mend the file, fetch it again, or accept more with data.bad_rows=SHARE"
            )

    def tell(self, say: Callable[[str], None]) -> None:
        if self.count:
            say(f"left out {self.count} of {self.rows} rows; the first: {self.examples[0]}")

    def as_json(self) -> dict[str, object]:
        return {"rows": self.rows, "bad": self.count, "examples": self.examples}
