"""The learned bias of distances in tokens and in time, for the cells of one tile. Shape suffixes as in plain.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import nn

from gr_model.config import ModelConfig


class BiasCells(ABC):
    """Which learned numbers the cells [R, Q, K] of a tile take. Computed once a batch, used by every layer."""

    @abstractmethod
    def bias_RQK(self, position_P: torch.Tensor, time_T: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class IndexedCells(BiasCells):
    """By PyTorch."""

    distance_RQK: torch.Tensor  # how many tokens the key lies before the query, at least 0; R is 1 if all are alike
    bucket_RQK: torch.Tensor  # of the time between the two

    def bias_RQK(self, position_P: torch.Tensor, time_T: torch.Tensor) -> torch.Tensor:
        # index_select for its backward, index_add: 1.4 ms for 1.5M elements on two cores; indexing 16, embedding 65.
        position_RQK = position_P.index_select(0, self.distance_RQK.flatten()).view(self.distance_RQK.shape)
        time_RQK = time_T.index_select(0, self.bucket_RQK.flatten()).view(self.bucket_RQK.shape)
        return time_RQK + position_RQK


@dataclass(frozen=True)
class OperatorCells(BiasCells):
    """By the operator, which knows distances and masks and looks at those cells only that a query sees."""

    bucket_RQK: torch.Tensor
    offsets_R1: torch.Tensor
    history_R: torch.Tensor | None  # tokens before the targets; None: there are no targets
    contexts: int

    def bias_RQK(self, position_P: torch.Tensor, time_T: torch.Tensor) -> torch.Tensor:
        bias_R1SS: torch.Tensor = torch.ops.mxrec.hstu_relative_bias(
            position_P, time_T, self.bucket_RQK, self.offsets_R1, self.history_R, self.contexts
        )
        return bias_R1SS.squeeze(1)  # not [:, 0]: its gradient would be written into zeros


class RelativeBias(nn.Module):
    """A learned number per distance in tokens plus one per bucket of distance in time, the same for all heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.empty(config.max_tokens).normal_(std=0.02))
        self.time = nn.Parameter(torch.empty(config.time_buckets).normal_(std=0.02))

    def forward(self, cells: BiasCells) -> torch.Tensor:
        """[R, Q, K]"""
        return cells.bias_RQK(self.position, self.time)
