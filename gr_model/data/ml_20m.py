"""MovieLens-20M: 138,493 users, 26,744 rated films, 20,000,263 ratings from 0.5 to 5 in halves (GroupLens)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.columns import read_blocks
from gr_model.data.interactions import rating_tasks
from gr_model.data.source import Rows, Source

RATINGS = tuple(step / 2 for step in range(1, 11))


def rows(folder: Path, bad: BadRows) -> Rows:
    columns = (
        Column(name="userId"), Column(name="movieId"), Column(name="rating", kind="float", low=0.5, high=5),
        Column(name="timestamp", low=0),
    )
    for block in read_blocks(folder / "ratings.csv", columns, bad):
        yield {
            "user": block["userId"],
            "item": block["movieId"],
            "action": np.rint(block["rating"] * 2).astype(np.int64) - 1,
            "time": block["timestamp"],
        }


SOURCE = Source(
    name="ml-20m", files=("ratings.csv",), rows=rows, action_values=RATINGS, tasks=rating_tasks(RATINGS)
)
