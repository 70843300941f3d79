"""What every data set becomes: for each user, items and actions in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class DataError(ValueError):
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

    def __getitem__(self, part: slice) -> History:
        return History(self.items[part], self.actions[part], self.times[part], self.features)


@dataclass(frozen=True)
class Interactions:
    """Item and action ids are dense, from 0; `action_values[a]` is the rating behind action a."""

    name: str
    users: tuple[History, ...]
    items: int
    action_values: tuple[float, ...]
    feature_sizes: dict[str, int]

    def choose_features(self, names: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        """[U, C] ids of the named user features, and how many values each has."""
        known = list(self.feature_sizes)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise DataError(f"{self.name} has no user feature {', '.join(unknown)}; valid: {', '.join(known)}")
        columns = [known.index(name) for name in names]
        table = np.stack([user.features for user in self.users])
        return table[:, columns], [self.feature_sizes[name] for name in names]


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
