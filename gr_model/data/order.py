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
    row groups, so that an epoch reads every row group about once.
    """

    def __init__(self, users: int, batch: int, seed: int, group_of: np.ndarray | None = None) -> None:
        self.users, self.batch, self.seed = users, batch, seed
        several = group_of is not None and len(np.unique(group_of)) > WINDOW
        self.groups = np.split(np.arange(users), np.flatnonzero(np.diff(group_of)) + 1) if several else None
        self._epoch, self._order = -1, np.empty(0, np.int64)

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.users / self.batch)

    def users_of_step(self, step: int) -> list[int]:
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self._order[index * self.batch : (index + 1) * self.batch].tolist()

    def _shuffled(self, epoch: int) -> np.ndarray:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        if self.groups is None:
            return torch.randperm(self.users, generator=generator).numpy()
        groups = torch.randperm(len(self.groups), generator=generator).tolist()
        parts = []
        for start in range(0, len(groups), WINDOW):
            window = np.concatenate([self.groups[group] for group in groups[start : start + WINDOW]])
            parts.append(window[torch.randperm(len(window), generator=generator).numpy()])
        return np.concatenate(parts)


@dataclass(frozen=True)
class Share:
    """The users of one process in one step. A process that would have none takes one that does not count."""

    users: list[int]
    counts: bool = True


def spread(users: Sequence[int], lengths: np.ndarray, processes: int) -> list[Share]:
    """Users over processes so that the sums of length² are nearly equal: the longest first, each to the least loaded.

    Attention takes most of the time of long sequences, and its cost grows with the square. Of processes with equal load
    the one with fewer users, then the first, takes the next: the result is the same everywhere.
    """
    if processes == 1:
        return [Share(list(users))]
    cost = np.asarray(lengths, np.int64) ** 2
    shares: list[list[int]] = [[] for _ in range(processes)]
    load = [0] * processes
    for index in np.argsort(-cost, kind="stable"):
        least = min(range(processes), key=lambda process: (load[process], len(shares[process]), process))
        shares[least].append(users[index])
        load[least] += int(cost[index])
    return [Share(share) if share else Share([users[0]], counts=False) for share in shares]
