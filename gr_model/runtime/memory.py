"""Memory of this process, in bytes."""

from __future__ import annotations

import resource

import torch


def peak_memory(device: torch.device) -> dict[str, int]:
    """The most that was resident on the host, and allocated on the device, so far."""
    found = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if device.type != "cpu":
        found["device"] = int(getattr(torch, device.type).max_memory_allocated(device))
    return found
