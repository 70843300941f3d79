"""Where the time of a step goes."""

from __future__ import annotations

import time

import torch


class Clock:
    """With `synchronise` a phase ends when the device has done its work; else it is what the host spent."""

    def __init__(self, device: torch.device, synchronise: bool = False) -> None:
        self.device, self.synchronise = device, synchronise and device.type != "cpu"
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        if self.synchronise:
            getattr(torch, self.device.type).synchronize(self.device)
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
