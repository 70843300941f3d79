"""Dropout that draws the same elements on every device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Dropout(nn.Module):
    """Dropout that can draw on the host, so that every device drops the same elements."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.from_host = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not (self.training and self.p and self.from_host):
            return F.dropout(x, self.p, self.training)
        return x * ((torch.rand(x.shape) >= self.p) / (1 - self.p)).to(x.device)
