"""Reads the histories of coming steps ahead of the training, in worker processes or in this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from gr_model.data.interactions import History, lengths_of
from gr_model.data.order import Order, Share, spread


@dataclass(frozen=True)
class Work:
    """What one process shows the model in one step."""

    step: int
    share: Share
    histories: list[History]


class Shares:
    """The share of process `rank` in each step. `lengths` are those of the histories as the model sees them."""

    def __init__(self, order: Order, lengths: np.ndarray, rank: int, processes: int) -> None:
        self.order, self.lengths, self.rank, self.processes = order, lengths, rank, processes

    def of_step(self, step: int) -> Share:
        users = self.order.users_of_step(step)
        return spread(users, self.lengths[users], self.processes, self.order.lanes_of_step(step))[self.rank]


class _Steps(Dataset):
    """Step -> what it needs, as few arrays: workers hand arrays over by shared memory."""

    def __init__(self, shares: Shares, users: Sequence[History], newest: int) -> None:
        self.shares, self.users, self.newest = shares, users, newest

    def __getitem__(self, step: int) -> tuple[int, Share, dict[str, torch.Tensor]]:
        share = self.shares.of_step(step)
        histories = [self.users[user] for user in share.users]
        if self.newest:
            histories = [history[-self.newest :] for history in histories]
        packed = {
            name: torch.from_numpy(np.concatenate([getattr(history, name) for history in histories]))
            for name in ("items", "actions", "times")
        }
        packed["lengths"] = torch.tensor([len(history) for history in histories])
        packed["features"] = torch.from_numpy(np.stack([history.features for history in histories]))
        return step, share, packed


def _unpacked(packed: dict[str, torch.Tensor]) -> list[History]:
    stops = packed["lengths"].cumsum(0)[:-1].tolist()
    columns = [np.split(packed[name].numpy(), stops) for name in ("items", "actions", "times")]
    return [History(*parts) for parts in zip(*columns, packed["features"].numpy(), strict=True)]


class Loader:
    """Works of the steps from `start` on, in order. Its position is the step: nothing else is needed to continue.

    `workers` processes ("fork" or "spawn") read `prefetch` steps ahead each; 0 reads in this process when asked.
    `newest` bounds what is handed over of a history; 0 for all of it.
    """

    def __init__(
        self, shares: Shares, users: Sequence[History], *, workers: int = 0, prefetch: int = 2, context: str = "fork",
        newest: int = 0,
    ) -> None:
        self.steps = _Steps(shares, users, newest)
        self.workers, self.prefetch, self.context = workers, prefetch, context

    def works(self, start: int, stop: int) -> Iterator[Work]:
        several = {"prefetch_factor": self.prefetch, "multiprocessing_context": self.context} if self.workers else {}
        loader = DataLoader(
            self.steps, batch_size=None, sampler=range(start, stop), num_workers=self.workers, **several
        )
        for step, share, packed in loader:
            yield Work(step, share, _unpacked(packed))


def shares_of(
    users: Sequence[History], batch: int, seed: int, longest: int, rank: int, processes: int
) -> Shares:
    """`longest`: of a longer history the model sees only so many interactions."""
    lengths = np.minimum(lengths_of(users), longest)
    order = Order(len(users), batch, seed, getattr(users, "group_of", None), lengths.astype(np.float64) ** 2)
    return Shares(order, lengths, rank, processes)

