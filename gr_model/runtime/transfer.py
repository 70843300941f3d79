"""What a batch is made of, on its way from the host to the device."""

from __future__ import annotations

import numpy as np
import torch


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """`array` on `device`. An NPU reads it from pinned memory while the host goes on; else the host would wait for all
    that was queued before it."""
    return moved(torch.from_numpy(array), device)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """As to_device; a tensor that is on the device already stays what it is."""
    if device.type != "npu" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
