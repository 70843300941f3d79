"""Batch: what models over sharded collections train on, as torchrec's pipelines want it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchrec import KeyedJaggedTensor
from torchrec.streamable import Pipelineable


@dataclass
class Batch(Pipelineable):
    features: KeyedJaggedTensor
    target: Tensor  # (B,)

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        return Batch(self.features.to(device, non_blocking), self.target.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        self.features.record_stream(stream)
        self.target.record_stream(stream)

    def pin_memory(self) -> Batch:
        return self
