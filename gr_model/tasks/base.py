"""What a task is to the training: it makes batches, and each batch knows its tokens, its lookup and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from gr_model.common import ticker
from gr_model.common.ticker import Say
from gr_model.config import Config
from gr_model.data.interactions import History, Interactions
from gr_model.model.preprocess import Tokens
from gr_model.runtime.world import World


@dataclass(frozen=True)
class Batch(ABC):
    """What one process shows the model in one training step, on the device."""

    tokens: Tokens

    @property
    @abstractmethod
    def item_ids(self) -> tuple[torch.Tensor, ...]:
        """The sets of ids that the step looks up in the table of items."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many numbers the loss is the mean of."""

    @abstractmethod
    def loss(self, model: nn.Module) -> torch.Tensor:
        """The mean over the batch."""


class Task(ABC):
    """Model, batches, evaluation. `users` are the histories that the task trains and evaluates on."""

    model: nn.Module
    users: Sequence[History]

    def __init__(self, config: Config, data: Interactions, world: World) -> None:
        self.config, self.data, self.world = config, data, world

    @abstractmethod
    def batch(
        self,
        users: Sequence[int],
        device: torch.device,
        histories: Sequence[History] | None = None,
        counts: bool = True,
        step: int = 0,
    ) -> Batch:
        """The batch of a training step of these users; `histories` are theirs, where they were read already.

        Random choices follow from `step`. A batch that does not count only keeps the processes in step.
        """

    def loss(self, batch: Batch, model: nn.Module | None = None) -> torch.Tensor:
        """`model` stands for the task's own, wrapped for several processes."""
        return batch.loss(model or self.model)

    @abstractmethod
    def evaluate(self, device: torch.device, say: Say = ticker.nothing) -> dict[str, float]:
        """Metrics over all users, the same on every process. `say` hears every ten seconds how far it is."""

    @abstractmethod
    def protocol(self) -> str:
        """How the data is split and scored, in a sentence."""
