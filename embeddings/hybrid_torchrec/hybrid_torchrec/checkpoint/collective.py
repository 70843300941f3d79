"""Collective steps of ranks: what fails on one fails on all, by the name of its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.utils import _DistWrapper

from hybrid_torchrec.checkpoint.errors import CheckpointError

T = TypeVar("T")
R = TypeVar("R")


class Collective:
    """Steps of the ranks of `group` (None: the default group, or this process alone); rank 0 coordinates."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.distributed = dist.is_available() and dist.is_initialized()
        self._ranks = _DistWrapper(group, self.distributed, 0)
        self.rank = self._ranks.get_rank()
        self.world = self._ranks.get_world_size()
        self.is_coordinator = self._ranks.is_coordinator

    def all_reduce(self, step: str, each: Callable[[], T], one: Callable[[list[T]], R]) -> R:
        """Runs `each` on all ranks, `one` on their results on the coordinator, and returns its result everywhere."""
        with failing_collectively():
            return self._ranks.all_reduce(step, each, one)


class failing_collectively:
    """Raises the CheckpointError that a rank raised in a collective step, with that rank's number, on this one."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, CheckpointException):
            return
        causes = {rank: failure[0] for rank, failure in error.failures.items()}
        known = {rank: cause for rank, cause in causes.items() if isinstance(cause, CheckpointError)}
        rank, cause = next(iter((known or causes).items()))
        kind = type(cause) if known else CheckpointError
        others = f" (and {len(causes) - 1} more ranks)" if len(causes) > 1 else ""
        where = f"rank {rank}{others}: " if dist.is_available() and dist.is_initialized() else ""
        text = str(cause) if known else f"{type(cause).__name__}: {cause}"
        raise kind(f"{where}{text}") from error
