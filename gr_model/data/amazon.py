"""Amazon product ratings of 2014 (McAuley et al.): all ratings of a category, or its 5-core reviews.

ratings_<Category>.csv: user, item, rating, time, no header. reviews_<Category>_5.json.gz: a JSON object a line with
reviewerID, asin, overall and unixReviewTime. From the ratings, users and items with fewer than 5 are left out, both
counted on the whole file, as in the published HSTU experiments; the 5-core is taken as it is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gr_model.common import in_image
from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.columns import read_blocks
from gr_model.data.interactions import DataError, rating_tasks
from gr_model.data.source import Rows, Source

RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
BLOCK = 1 << 17  # reviews
HEADER = ("user", "item", "rating", "time")


def ratings(name: str, file: str) -> Source:
    def rows(folder: Path, bad: BadRows) -> Rows:
        columns = (
            Column(name="user", kind="text"), Column(name="item", kind="text"),
            Column(name="rating", kind="float", low=1, high=5), Column(name="time", low=0),
        )
        for block in read_blocks(folder / file, columns, bad, header=HEADER):
            yield {**block, "action": np.rint(block["rating"]).astype(np.int64) - 1}

    return Source(name=name, files=(file,), rows=rows, action_values=RATINGS, tasks=rating_tasks(RATINGS), at_least=5)


def reviews(name: str, file: str) -> Source:
    def rows(folder: Path, bad: BadRows) -> Rows:
        block: list[tuple[str, str, int, int]] = []
        for row in _reviews(folder / file, bad):
            block.append(row)
            if len(block) == BLOCK:
                yield _columns(block)
                block = []
        if block:
            yield _columns(block)

    return Source(name=name, files=(file,), rows=rows, action_values=RATINGS, tasks=rating_tasks(RATINGS))


def _reviews(path: Path, bad: BadRows) -> Iterator[tuple[str, str, int, int]]:
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                bad.read(1)
                try:
                    yield _review(line)
                except ValueError as error:
                    bad.add(path, number, str(error))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {in_image.fetch_data(path.parent)}") from None
    except (EOFError, OSError) as error:
        raise DataError(f"{path}: not readable after line {number}: {error}") from None


def _review(line: bytes) -> tuple[str, str, int, int]:
    try:
        review = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not a JSON object: {error}") from None
    if not isinstance(review, dict):
        raise ValueError("not a JSON object")
    missing = [key for key in ("reviewerID", "asin", "overall", "unixReviewTime") if key not in review]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    user, item, rating, time = (review[key] for key in ("reviewerID", "asin", "overall", "unixReviewTime"))
    if not (isinstance(user, str) and user and isinstance(item, str) and item):
        raise ValueError(f"reviewerID and asin must be texts, got {user!r} and {item!r}")
    if rating not in RATINGS:
        raise ValueError(f"overall must be one of 1 to 5, got {rating!r}")
    if not isinstance(time, int) or time < 0:
        raise ValueError(f"unixReviewTime must be a number of seconds, got {time!r}")
    return user, item, int(rating) - 1, time


def _columns(block: list[tuple[str, str, int, int]]) -> dict[str, np.ndarray]:
    user, item, action, time = zip(*block)
    return {
        "user": np.array(user, object),
        "item": np.array(item, object),
        "action": np.array(action, np.int64),
        "time": np.array(time, np.int64),
    }
