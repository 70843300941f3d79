"""MovieLens-1M: 6,040 users, 3,706 rated films, 1,000,209 ratings from 1 to 5 (GroupLens; ratings.dat, users.dat)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.columns import read_blocks
from gr_model.data.interactions import rating_tasks
from gr_model.data.source import Rows, Source, UserFeatures

RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
AGES = (1, 18, 25, 35, 45, 50, 56)  # the lower bound of each group
OCCUPATIONS = 21


def rows(folder: Path, bad: BadRows) -> Rows:
    # The separator is two colons: between two fields lies an empty one.
    header = ("user", "", "item", " ", "rating", "  ", "time")
    columns = (Column(name="user"), Column(name="item"), Column(name="rating", low=1, high=5), Column(name="time", low=0))
    for block in read_blocks(folder / "ratings.dat", columns, bad, delimiter=":", header=header):
        yield {**block, "action": block["rating"] - 1}


def features(folder: Path, bad: BadRows) -> UserFeatures:
    header = ("user", "", "gender", " ", "age", "  ", "occupation", "   ", "zip")
    columns = (
        Column(name="user"), Column(name="gender", kind="text"), Column(name="age", low=1, high=56),
        Column(name="occupation", low=0, high=OCCUPATIONS - 1),
    )
    codes: dict[int | str, tuple[int, ...]] = {}
    for block in read_blocks(folder / "users.dat", columns, bad, delimiter=":", header=header):
        gender = np.select([block["gender"] == "M", block["gender"] == "F"], [0, 1], 2)
        age = np.searchsorted(AGES, block["age"], side="right") - 1
        codes |= zip(block["user"].tolist(), zip(gender.tolist(), age.tolist(), block["occupation"].tolist()))
    return UserFeatures({"gender": 3, "age": len(AGES) + 1, "occupation": OCCUPATIONS + 1}, codes)


SOURCE = Source(
    name="ml-1m",
    files=("ratings.dat", "users.dat"),
    rows=rows,
    features=features,
    action_values=RATINGS,
    tasks=rating_tasks(RATINGS),
)
