"""Dropout that draws the same elements on every device, and on any number of processes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from gr_model.common import draws


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
        return x * (self._from_host(x) / (1 - self.p)).to(x.device)

    def keep(self, x: torch.Tensor) -> torch.Tensor | None:
        """What an operator of gr_ops keeps and scales by `scale`, as bool; None: all. From the host the same elements
        as above."""
        if not (self.training and self.p):
            return None
        if self.from_host:
            return self._from_host(x).to(x.device)
        return torch.ops.mxrec.hstu_keep(x, self.p, int(torch.randint(2**62, ())))

    @property
    def scale(self) -> float:
        return 1 / (1 - self.p) if self.training else 1.0

    def _from_host(self, x: torch.Tensor) -> torch.Tensor:
        return draws.for_tensor(x.shape, self.stream) >= self.p
