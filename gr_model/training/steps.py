"""A training step on its way and done, and what takes steps: a trainer, as the pipeline sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from gr_model.config import Config
from gr_model.data.loader import Work
from gr_model.training import phases


@dataclass(frozen=True)
class StepResult:
    step: int  # from 1
    loss: float  # mean over all processes
    tokens: int  # of all processes
    rate: float = 0.0  # learning rate of the dense part
    flops: float = 0.0  # of all processes
    gradient_norm: float = float("nan")  # of the dense part; nan where it is looked at later
    seconds: dict[str, float] = field(default_factory=dict)  # by phase


@dataclass
class Going:
    """A step on its way."""

    work: Work
    batch: Any
    part: float = 1.0  # this process's share of the numbers that the loss is the mean of
    loss: float = float("nan")  # mean over all processes
    tokens: int = 0
    flops: float = 0.0
    rate: float = 0.0


class Steps(Protocol):
    """The parts of a step, in this order; batches may be begun ahead of it."""

    config: Config
    device: torch.device
    model: nn.Module
    optimizer: torch.optim.Optimizer
    task: Any

    def begin(self, work: Work) -> Going: ...
    def set_table_rate(self) -> None: ...
    def forward(self, going: Going) -> torch.Tensor: ...
    def finish(self, going: Going, clock: phases.Clock) -> StepResult: ...
