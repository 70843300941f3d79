"""The columns that a data set wants of a delimited text file, and the door to reading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError


@dataclass(frozen=True, kw_only=True)
class Column:
    """`low` and `high` bound a number, both included; a text must not be empty."""

    name: str
    kind: Literal["int", "float", "text"] = "int"
    low: float = -float("inf")
    high: float = float("inf")


def read_blocks(path: Path, columns: Sequence[Column], bad: BadRows, **options: Any) -> Iterator[dict[str, np.ndarray]]:
    """Blocks of rows as dicts of equally long columns: int64, float64, or str objects.

    Options: `delimiter`; `header`, the names of the columns where no first line has them; `quoted`, whether fields may
    stand in quotes. Files that end in .gz are unpacked on the way. A row that does not fit goes to `bad`. DataError for
    a file that is missing or lacks a column.
    """
    try:
        from gr_model.data import csv_rows  # PyArrow is loaded by the first data set that needs it
    except ImportError as error:
        raise DataError(f"{path}: reading it needs pyarrow, which the images have ({error}); pip install pyarrow") from None
    return csv_rows.read(path, columns, bad, **options)
