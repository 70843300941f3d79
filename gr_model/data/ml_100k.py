"""MovieLens-100K: 943 users, 1,682 films, 100,000 ratings from 1 to 5 (GroupLens; as packed by RecBole)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gr_model.data.atomic import AtomicFile
from gr_model.data.interactions import DataError, Interactions, by_user

RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
AGE_BOUNDS = (18, 25, 35, 45, 50, 56)


def load(folder: Path) -> Interactions:
    """Reads ml-100k.inter, .user and .item; a malformed line raises DataError with file, line and reason."""
    user_file = AtomicFile(folder / "ml-100k.user", ("user_id", "age", "gender", "occupation"))
    item_file = AtomicFile(folder / "ml-100k.item", ("item_id",))
    rating_file = AtomicFile(folder / "ml-100k.inter", ("user_id", "item_id", "rating", "timestamp"))

    users, items = user_file.distinct("user_id"), item_file.distinct("item_id")
    ratings = rating_file.numbers("rating")
    for row, rating in enumerate(ratings):
        if rating not in RATINGS:
            raise DataError(f"{rating_file.path}:{row + 2}: rating must be one of 1 to 5, got {rating:g}")

    genders = {"M": 0, "F": 1}
    occupations = {name: index for index, name in enumerate(sorted(set(user_file.text["occupation"])))}
    features = np.stack(
        [
            np.array(user_file.codes("gender", genders)),
            np.searchsorted(AGE_BOUNDS, user_file.numbers("age", int), side="right"),
            np.array(user_file.codes("occupation", occupations)),
        ],
        axis=1,
    )
    return Interactions(
        name="ml-100k",
        users=by_user(
            user=np.array(rating_file.codes("user_id", users)),
            item=np.array(rating_file.codes("item_id", items)),
            action=np.array(ratings, dtype=np.int64) - 1,
            time=np.array(rating_file.numbers("timestamp"), dtype=np.int64),
            features=features,
        ),
        items=len(items),
        action_values=RATINGS,
        feature_sizes={"gender": len(genders), "age": len(AGE_BOUNDS) + 1, "occupation": len(occupations)},
    )
