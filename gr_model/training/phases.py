"""Where the time of a step goes."""

from __future__ import annotations

import time

import torch

SYNCHRONISE = {"enabled": False}  # wait for the device at the end of each phase; else a phase is what the host spent


class Clock:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        if SYNCHRONISE["enabled"] and self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize(self.device)
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
