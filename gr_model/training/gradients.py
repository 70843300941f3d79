"""The gradient of the dense part of a step: its norm, clipping by it, and the end of a run where it is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from gr_model.tasks.base import Batch


class TrainingDiverged(RuntimeError):
    """`batch` is the step's batch on this process, for inspection."""

    def __init__(self, what: str, step: int, users: list[int], batch: Batch) -> None:
        super().__init__(f"{what} at step {step}; lower train.lr or look at the data")
        self.step, self.users, self.batch = step, users, batch


def norm(parameters: Iterable[nn.Parameter], clip: float) -> torch.Tensor:
    """Scalar, the L2 norm of all gradients over all processes; then scales them so that it is at most `clip` > 0."""
    weights = list(parameters)
    whole = nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    if clip:
        nn.utils.clip_grads_with_norm_(weights, clip, whole)
    total: torch.Tensor = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
    return total


@dataclass(frozen=True)
class PendingNorm:
    """A norm that is on the device, with what it came from."""

    norm: torch.Tensor
    step: int  # from 1
    users: list[int]
    batch: Batch

    def check(self) -> float:
        """Waits for the device; TrainingDiverged if the norm is not finite."""
        value = float(self.norm.item())
        if not math.isfinite(value):
            raise TrainingDiverged(f"the norm of the gradient is {value}", self.step, self.users, self.batch)
        return value
