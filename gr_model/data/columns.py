"""The door to reading columns of a delimited text file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.interactions import DataError


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
