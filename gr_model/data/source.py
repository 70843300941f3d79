"""What a data set brings so that it can be turned into shards: its rows, what its actions mean, its users' features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gr_model.data.bad_rows import BadRows

Rows = Iterator[dict[str, np.ndarray]]


@dataclass(frozen=True)
class UserFeatures:
    """`codes[user id]` holds one dense code per feature; a user without features has the last code of each."""

    sizes: dict[str, int]
    codes: dict[int | str, tuple[int, ...]]

    def of(self, user: int | str) -> tuple[int, ...]:
        return self.codes.get(user) or tuple(size - 1 for size in self.sizes.values())


def no_features(folder: Path, bad: BadRows) -> UserFeatures:
    return UserFeatures({}, {})


@dataclass(frozen=True, kw_only=True)
class Source:
    """`rows` yields blocks with the columns user, item (int64 or str), action (int64, dense) and time (int64).

    Users and items with fewer than `at_least` rows are left out, both counted on the rows as they come.
    """

    name: str
    files: tuple[str, ...]
    rows: Callable[[Path, BadRows], Rows]
    action_values: tuple[float, ...]
    tasks: dict[str, np.ndarray] = field(default_factory=dict)
    features: Callable[[Path, BadRows], UserFeatures] = no_features
    # Values and tasks of actions that are known only after all rows were read; in place of the two above.
    found_actions: Callable[[], tuple[tuple[float, ...], dict[str, np.ndarray]]] | None = None
    at_least: int = 1
    by_content: bool = False  # whether shards are made anew by what the files hold, or by their size and time
    ticks: int = 1  # of `time` in a second

