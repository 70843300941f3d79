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
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    total = nn.utils.get_total_norm(gradients)
    if hasattr(total, "full_tensor"):  # summed over FSDP's pieces once, not again for each gradient that it scales
        total = total.full_tensor()
    if clip:
        nn.utils.clip_grads_with_norm_(weights, clip, total)
    return total
