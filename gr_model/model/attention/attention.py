"""The attention of one layer: its learned bias, and the call of the implementation that calculates the batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from gr_model.config import ModelConfig
from gr_model.model.attention.base import BatchAttention
from gr_model.model.attention.relative_bias import RelativeBias


class Attention(nn.Module):
    """q, k [L, N, A] and v [L, N, V] -> [L, N * V]."""

    COMPILED = ("weights",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.bias = RelativeBias(config) if config.relative_bias else None
        self.scale = 1 / config.max_tokens

    def forward(
        self, q_LNA: torch.Tensor, k_LNA: torch.Tensor, v_LNV: torch.Tensor, batch: BatchAttention
    ) -> torch.Tensor:
        return batch.attend(q_LNA, k_LNA, v_LNV, self)

    def in_one_call(self, batch: BatchAttention) -> dict[str, Any] | None:
        """The arguments of BatchAttention.in_one_call."""
        return batch.in_one_call(self)

    def weights(self, scores_RNQK: torch.Tensor, bias_RQK: torch.Tensor | None, seen_RQK: torch.Tensor) -> torch.Tensor:
        """Of plain attention; here because torch.compile replaces methods of modules."""
        if bias_RQK is not None:
            scores_RNQK = scores_RNQK + bias_RQK[:, None]
        return F.silu(scores_RNQK) * seen_RQK[:, None]
