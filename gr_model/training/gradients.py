"""The gradient of the dense part of a step: its norm, clipping by it, and the error of a run that diverged."""

from __future__ import annotations

from collections.abc import Iterable

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
