"""MovieLens-100K: 943 users, 1,682 films, 100,000 ratings from 1 to 5 (GroupLens; as packed by RecBole)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gr_model.data.atomic import AtomicFile
from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError, Interactions, by_user

RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
AGE_BOUNDS = (18, 25, 35, 45, 50, 56)
GENDERS = {"M": 0, "F": 1}


def load(folder: Path, bad: BadRows) -> Interactions:
    """Reads ml-100k.user, .item and .inter.

    A user or film whose line does not fit goes with all its ratings, which count as bad rows too: `bad.limit` bounds
    what is lost.
    """
    users, features, occupations = _users(folder / "ml-100k.user", bad)
    items, titles = _items(folder / "ml-100k.item", bad)
    file = AtomicFile(folder / "ml-100k.inter", ("user_id", "item_id", "rating", "timestamp"))
    ratings, times = file.numbers("rating"), file.numbers("timestamp")
    for index in np.flatnonzero(~np.isin(ratings, RATINGS)).tolist():
        file.mark(index, f"rating must be one of 1 to 5, got {ratings[index]:g}")
    file.known("user_id", users)
    file.known("item_id", items)
    good = file.good(bad)
    bad.check()
    if not len(good):
        raise DataError(f"{file.path}: no row fits")
    return Interactions(
        name="ml-100k",
        users=by_user(
            user=np.array([users[file.text["user_id"][index]] for index in good]),
            item=np.array([items[file.text["item_id"][index]] for index in good]),
            action=ratings[good].astype(np.int64) - 1,
            time=times[good].astype(np.int64),
            features=features,
        ),
        items=len(items),
        action_values=RATINGS,
        feature_sizes={"gender": len(GENDERS), "age": len(AGE_BOUNDS) + 1, "occupation": occupations},
        user_names=tuple(users),
        item_names=tuple(items),
        item_titles=titles,
    )


def _users(path: Path, bad: BadRows) -> tuple[dict[str, int], np.ndarray, int]:
    """Dense ids in the order of the file, [U, 3] gender, age and occupation, and how many occupations there are."""
    file = AtomicFile(path, ("user_id", "age", "gender", "occupation"))
    ages = file.numbers("age", int)
    file.known("gender", GENDERS)
    file.unique("user_id")
    good = file.good(bad)
    text = {column: [values[index] for index in good] for column, values in file.text.items()}
    occupations = {name: code for code, name in enumerate(sorted(set(text["occupation"])))}
    features = np.stack(
        [
            np.array([GENDERS[gender] for gender in text["gender"]], np.int64),
            np.searchsorted(AGE_BOUNDS, ages[good], side="right"),
            np.array([occupations[occupation] for occupation in text["occupation"]], np.int64),
        ],
        axis=1,
    )
    return {name: code for code, name in enumerate(text["user_id"])}, features, len(occupations)


def _items(path: Path, bad: BadRows) -> tuple[dict[str, int], tuple[str, ...]]:
    """Dense ids in the order of the file, and the films' titles, where the file has them."""
    file = AtomicFile(path, ("item_id",), optional=("movie_title",))
    file.unique("item_id")
    good = file.good(bad)
    titles = file.text.get("movie_title")
    return (
        {file.text["item_id"][index]: code for code, index in enumerate(good)},
        tuple(titles[index] for index in good) if titles else (),
    )
