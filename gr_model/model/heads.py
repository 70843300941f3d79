"""From the representation of an item shown to a user to one logit per task.

Shape suffixes: I items shown, D model dim, H hidden width, E experts, T tasks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from gr_model.config import Config
from gr_model.model import fused_ops


class MLPHead(nn.Module):
    """One hidden layer that all tasks share."""

    COMPILED = ("forward",)

    def __init__(self, dim: int, hidden: int, tasks: int) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(dim, hidden), nn.Linear(hidden, tasks)

    def forward(self, x_ID: torch.Tensor) -> torch.Tensor:
        return self.output(F.silu(self.hidden(x_ID)))


class MMoEHead(nn.Module):
    """Multi-gate mixture of experts (Ma et al. 2018): each task mixes the experts by a gate of its own."""

    COMPILED = ("forward",)

    def __init__(self, dim: int, hidden: int, experts: int, tasks: int) -> None:
        super().__init__()
        self.experts, self.hidden = experts, hidden
        self.expert, self.gate = nn.Linear(dim, experts * hidden), nn.Linear(dim, tasks * experts)
        self.tower_TH = nn.Parameter(torch.empty(tasks, hidden).normal_(std=hidden**-0.5))
        self.bias_T = nn.Parameter(torch.zeros(tasks))

    def forward(self, x_ID: torch.Tensor) -> torch.Tensor:
        expert_IEH = F.silu(self.expert(x_ID)).unflatten(1, (self.experts, self.hidden))
        gate_ITE = self.gate(x_ID).unflatten(1, (-1, self.experts)).softmax(2)
        mixed_ITH = gate_ITE.to(expert_IEH.dtype) @ expert_IEH
        return (mixed_ITH * self.tower_TH).sum(2) + self.bias_T


class Head(nn.Sequential):
    """A norm and what makes logits of it."""

    def forward(self, x_LD: torch.Tensor, at_I: torch.Tensor | None = None) -> torch.Tensor:
        """Of all rows, or of those at `at_I`, none of them twice."""
        norm, logits = self
        if at_I is None:
            return logits(norm(x_LD))
        if fused_ops.norms_scored(x_LD, norm):
            return logits(fused_ops.scored(x_LD, at_I, norm))
        return logits(norm(x_LD.index_select(0, at_I)))


def head(config: Config, dim: int) -> Head:
    settings, tasks = config.ranking, len(config.ranking.tasks)
    norm = nn.LayerNorm(dim, config.model.norm_eps)
    if settings.head == "linear":
        return Head(norm, nn.Linear(dim, tasks))
    if settings.head == "mlp":
        return Head(norm, MLPHead(dim, settings.hidden, tasks))
    return Head(norm, MMoEHead(dim, settings.hidden, settings.experts, tasks))
