"""What a batch is made of, on its way from the host to the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

ALIGNED = 16  # elements of 8 bytes: where a kernel's vectors and a GPU's cache lines begin


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """`array` on `device`. NPUs and GPUs read it from pinned memory while the host goes on; else the host would wait
    for all that was queued before it."""
    return moved(torch.from_numpy(array), device)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """As to_device; a tensor that is on the device already stays what it is."""
    if device.type == "cpu" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def together(arrays: Sequence[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """As to_device, of int64 arrays of any shapes. A GPU gets them in one copy, and they share its memory: CUDA takes
    milliseconds for each new piece of pinned memory."""
    if device.type != "cuda":
        return [to_device(np.ascontiguousarray(array, np.int64), device) for array in arrays]
    pinned = torch.empty(sum(_spaces(arrays)), dtype=torch.int64, pin_memory=True)
    pack(arrays, pinned)
    return unpack(arrays, pinned.to(device, non_blocking=True))


def pack(arrays: Sequence[np.ndarray], whole: torch.Tensor) -> None:
    """Writes the arrays into `whole`, int64 on the host, each from a multiple of ALIGNED on."""
    for place, array in zip(whole.split(_spaces(arrays)), arrays, strict=True):
        place.numpy()[: array.size] = array.reshape(-1)


def unpack(arrays: Sequence[np.ndarray], whole: torch.Tensor) -> list[torch.Tensor]:
    """The parts of what `pack` wrote, in the shapes of the arrays."""
    parts = whole.split(_spaces(arrays))
    return [part[: array.size].view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _spaces(arrays: Sequence[np.ndarray]) -> list[int]:
    return [-(-array.size // ALIGNED) * ALIGNED for array in arrays]
