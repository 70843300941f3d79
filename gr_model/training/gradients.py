"""The gradient of the dense part of a step: its norm, clipping by it, and the error of a run that diverged."""

from __future__ import annotations

import torch
from torch import nn

from gr_model.runtime.world import World
from gr_model.tasks.base import Batch
from gr_model.training.pieces import Pieces


class TrainingDiverged(RuntimeError):
    """`batch` is the step's batch on this process, for inspection."""

    def __init__(self, what: str, step: int, users: list[int], batch: Batch) -> None:
        super().__init__(f"{what} at step {step}; lower train.lr or look at the data")
        self.step, self.users, self.batch = step, users, batch


def norm(pieces: Pieces, clip: float, world: World) -> torch.Tensor:
    """Scalar, the L2 norm of all gradients over all processes; then scales them so that it is at most `clip` > 0."""
    gradients = [parameter.grad for parameter in pieces.parameters if parameter.grad is not None]
    total = nn.utils.get_total_norm(gradients)
    if pieces.sharded:
        total = world.sum(total.square()).sqrt()
    if clip:
        nn.utils.clip_grads_with_norm_(pieces.parameters, clip, total)
    return total
