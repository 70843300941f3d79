"""Dropout that draws the same elements on every device, and on any number of processes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from gr_model import draws


class Dropout(nn.Module):
    """Dropout that can draw on the host, so that every device and any number of processes drop the same elements."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.from_host = False
        self.stream = 0  # tells the modules of a model apart

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not (self.training and self.p and self.from_host):
            return F.dropout(x, self.p, self.training)
        return x * ((draws.for_tensor(x.shape, self.stream) >= self.p) / (1 - self.p)).to(x.device)
