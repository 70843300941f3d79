"""Which users a step shows, and how they are spread over the processes. Both follow from (seed, step) alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

WINDOW = 16  # row groups whose users are shuffled together; data.shards keeps more in memory


class Order:
    """Every epoch shows every user once, in another order.

    Users in memory are shuffled all together. Users on disk are shuffled by row group, then within windows of WINDOW
    row groups, so that an epoch reads every row group about once. Each step has its part of every row group of the
    window, short and long histories alike: so processes can have row groups of their own and still equal loads.

    `costs` are what the histories cost in a step. Nothing here depends on the number of processes.
    """

    def __init__(
        self, users: int, batch: int, seed: int, group_of: np.ndarray | None = None, costs: np.ndarray | None = None
    ) -> None:
        self.users, self.batch, self.seed = users, batch, seed
        several = group_of is not None and len(np.unique(group_of)) > WINDOW
        self.groups = np.split(np.arange(users), np.flatnonzero(np.diff(group_of)) + 1) if several else None
        self.costs = np.ones(users) if costs is None else np.asarray(costs, np.float64)
        self._epoch, self._order, self._lanes = -1, np.empty(0, np.int64), np.empty(0)

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.users / self.batch)

    def users_of_step(self, step: int) -> list[int]:
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self._order[index * self.batch : (index + 1) * self.batch].tolist()

    def lanes_of_step(self, step: int) -> np.ndarray | None:
        """[users of the step] in [0, 1): where in its window each user's row group stands; None for users in memory."""
        users = self.users_of_step(step)
        return None if self.groups is None else self._lanes[users]

    def _shuffled(self, epoch: int) -> np.ndarray:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        if self.groups is None:
            return torch.randperm(self.users, generator=generator).numpy()
        self._lanes = np.empty(self.users)
        groups = torch.randperm(len(self.groups), generator=generator).tolist()
        parts = []
        for start in range(0, len(groups), WINDOW):
            window = [self.groups[group] for group in groups[start : start + WINDOW]]
            for place, group in enumerate(window):
                self._lanes[group] = place / len(window)
            parts.append(self._interleaved(window, generator))
        return np.concatenate(parts)

    def _interleaved(self, window: list[np.ndarray], generator: torch.Generator) -> np.ndarray:
        """All users of the window, so that any of its steps has its part of each row group, long and short alike."""
        rounds = max(1, round(sum(map(len, window)) / self.batch))
        users, keys = [], []
        for group in window:
            # Of every `rounds` users of similar cost each round gets one, which one by chance.
            similar = -(-len(group) // rounds)
            round_of = torch.rand(similar, rounds, generator=generator).argsort(1).flatten()[: len(group)]
            users.append(group[np.argsort(-self.costs[group], kind="stable")])
            keys.append((round_of + torch.rand(len(group), generator=generator)).numpy())
        return np.concatenate(users)[np.argsort(np.concatenate(keys), kind="stable")]


@dataclass(frozen=True)
class Share:
    """The users of one process in one step. A process that would have none takes one that does not count."""

    users: list[int]
    counts: bool = True


def spread(
    users: Sequence[int], lengths: np.ndarray, processes: int, lanes: np.ndarray | None = None
) -> list[Share]:
    """Users over processes so that the sums of length² are nearly equal: the longest first, each to the least loaded.

    Attention takes most of the time of long sequences, and its cost grows with the square. Of processes with equal load
    the one with fewer users, then the first, takes the next: the result is the same everywhere.

    With `lanes` (Order.lanes_of_step) each process has row groups of its own, but for those beside its neighbours'.
    """
    if processes == 1:
        return [Share(list(users))]
    cost = np.asarray(lengths, np.int64) ** 2
    first, last = _open_to(cost, lanes, processes)
    taken = np.full(len(users), -1)
    load, count = [0] * processes, [0] * processes
    # First those who have no choice. Then once more, when all loads are known, for those who have.
    by_choice = np.lexsort((-cost, last - first))
    for index in by_choice if lanes is None else [*by_choice, *np.argsort(-cost, kind="stable")]:
        if taken[index] >= 0:
            load[taken[index]] -= int(cost[index])
            count[taken[index]] -= 1
        open_to = range(first[index], last[index] + 1)
        taken[index] = least = min(open_to, key=lambda process: (load[process], count[process], process))
        load[least] += int(cost[index])
        count[least] += 1
    shares = [[users[index] for index in by_choice if taken[index] == process] for process in range(processes)]
    return [Share(share) if share else Share([users[0]], counts=False) for share in shares]


def _open_to(cost: np.ndarray, lanes: np.ndarray | None, processes: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and last process that may take each user.

    Of the step's load, counted along the lanes, process p of P has the part from p / P to (p + 1) / P. A lane is open
    to every process whose part is no further from it than the lane is wide: at equal loads, its owner's neighbours.
    """
    if lanes is None:
        return np.zeros(len(cost), np.int64), np.full(len(cost), processes - 1)
    _, lane = np.unique(lanes, return_inverse=True)
    wide = np.bincount(lane, cost) / cost.sum()
    end = np.cumsum(wide)
    first = np.clip(np.floor((end - 2 * wide) * processes), 0, processes - 1).astype(np.int64)
    last = np.clip(np.ceil((end + wide) * processes) - 1, first, processes - 1).astype(np.int64)
    return first[lane], last[lane]
