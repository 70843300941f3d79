"""What every data set becomes: for each user, items and actions in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gr_model.common.errors import GrModelError


class DataError(GrModelError, ValueError):
    pass


@dataclass(frozen=True)
class History:
    """Interactions of one user, oldest first. All arrays are int64 of one length, but `features`: one per feature."""

    items: np.ndarray
    actions: np.ndarray
    times: np.ndarray
    features: np.ndarray

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice | np.ndarray) -> History:
        return History(self.items[part], self.actions[part], self.times[part], self.features)


@dataclass(frozen=True)
class Interactions:
    """Item and action ids are dense, from 0; `action_values[a]` is the rating behind action a, or a mask of signals.

    `users` may read from disk (data.shards). `tasks` names what can be predicted of an action, as [actions] bool each;
    without any the actions are ratings.
    """

    name: str
    users: Sequence[History]
    items: int
    action_values: tuple[float, ...]
    feature_sizes: dict[str, int]
    tasks: dict[str, np.ndarray] = field(default_factory=dict)
    item_ids: Path | None = None  # a Parquet file whose column "item" has the id in the data behind each item number
    # ids in the data of users and items that are in memory, and what readers know the items by; empty where there are none
    user_names: tuple[str, ...] = ()
    item_names: tuple[str, ...] = ()
    item_titles: tuple[str, ...] = ()
    content: str = ""  # names what the data is made of, where that can change: one's own files

    def __post_init__(self) -> None:
        if not self.tasks:
            object.__setattr__(self, "tasks", rating_tasks(self.action_values))

    def choose_features(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        """The columns of `History.features` that hold the named user features, and how many values each has."""
        known = list(self.feature_sizes)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise DataError(
                f"{self.name} has no user feature {', '.join(unknown)}; valid: {', '.join(known) or 'none'}"
            )
        return [known.index(name) for name in names], [self.feature_sizes[name] for name in names]


def lengths_of(users: Sequence[History]) -> np.ndarray:
    """[U] int64: interactions of each user; those of users on disk are known without reading them."""
    known = getattr(users, "lengths", None)
    return np.array([len(user) for user in users], np.int64) if known is None else known


def select(users: Sequence[History], *, shortest: int, drop: int = 0) -> Sequence[History]:
    """Those who have at least `shortest` interactions after their newest `drop` were taken away; DataError for none."""
    lengths = lengths_of(users)
    chosen = np.flatnonzero(lengths - drop >= shortest)
    if not len(chosen):
        longest = max(lengths, default=0)
        raise DataError(
            f"no user has the {shortest + drop} interactions that a part for training and one for the test take: the longest "
            f"history has {longest}\n  next: more rows, or fewer of each user held out (ranking.held_out, "
            "retrieval.validation)"
        )
    if hasattr(users, "select"):
        return users.select(chosen, drop)
    return [users[index][: len(users[index]) - drop] for index in chosen]


def by_user(
    user: np.ndarray, item: np.ndarray, action: np.ndarray, time: np.ndarray, features: np.ndarray
) -> tuple[History, ...]:
    """Groups rows by user and orders each user's by time; rows of equal time keep their order in the file."""
    order = np.lexsort((np.arange(len(user)), time, user))
    user, item, action, time = user[order], item[order], action[order], time[order]
    bounds = np.searchsorted(user, np.arange(len(features) + 1))
    return tuple(
        History(item[a:b], action[a:b], time[a:b], features[u])
        for u, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    )


def rating_tasks(values: Sequence[float]) -> dict[str, np.ndarray]:
    """What is predicted of a rating."""
    rating = np.array(values)
    return {"like": rating >= 4, "love": rating >= 5, "dislike": rating <= 2}
