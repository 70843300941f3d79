"""A training step on its way and done, and what takes steps: a trainer, as the pipeline sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import nn

from gr_model.config import Config
from gr_model.data.loader import Work
from gr_model.tasks.base import Batch
from gr_model.training import phases
from gr_model.training.pieces import Pieces
from gr_model.training.readings import Scalar


@dataclass(frozen=True)
class StepResult:
    step: int  # from 1
    mean_loss: Scalar  # over all processes
    tokens: int  # of all processes
    rate: float = 0.0  # learning rate of the dense part
    flops: float = 0.0  # of all processes
    gradient_norm: float = float("nan")  # of the dense part; nan where it is looked at later
    seconds: dict[str, float] = field(default_factory=dict)  # by phase

    @property
    def loss(self) -> float:
        """Mean over all processes. Waits for the device where nobody read it yet."""
        return self.mean_loss.value

    @property
    def loss_known(self) -> bool:
        return self.mean_loss.known


@dataclass(frozen=True)
class PreparedBatch:
    """A step's batch, and what it was made from."""

    work: Work
    batch: Batch


@dataclass(frozen=True)
class ForwardResult:
    """What the end of a step needs of its forward pass."""

    prepared: PreparedBatch
    loss: Scalar  # mean over all processes
    tokens: int  # of all processes
    flops: float  # of all processes
    rate: float  # learning rate of the dense part


class StepParts(Protocol):
    """The parts of a step, in this order, each with what the one before gave; batches may be prepared ahead of it."""

    config: Config
    device: torch.device
    step: int  # steps that are done
    model: nn.Module
    pieces: Pieces

    def prepare(self, work: Work) -> PreparedBatch: ...
    def set_table_rate(self) -> None: ...
    def forward(self, prepared: PreparedBatch) -> tuple[torch.Tensor, ForwardResult]: ...
    def finish(self, forward: ForwardResult, clock: phases.Clock) -> StepResult: ...
    def clock(self) -> phases.Clock: ...
