"""Copies from the host to a device for which the host does not wait, and what the host goes on knowing of them.

A copy from pageable memory, and each copy back, makes the host wait for all that the device was given before. Slots are
found on the host, so what is needed of them there later (which rows an update changes) need not come back.
"""

from __future__ import annotations

import torch
from torch.utils.weak import WeakTensorKeyDictionary

PINNING = ("npu", "cuda")  # devices that copy out of pinned memory by themselves
_sources: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # copy -> (its source, the copy's version then)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """`tensor` on `device`; from the host by way of pinned memory, on the current stream, without a wait.

    PyTorch's allocator of pinned memory gives the block out again when the copy is done, by an event that it asks and
    nobody waits for.
    """
    if tensor.device.type != "cpu" or device.type not in PINNING or tensor.numel() == 0:
        return tensor.to(device)
    pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
    return pinned.to(device, non_blocking=True)


def known_on_host(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``to_device``, of which ``on_host`` knows the values as long as the copy lives and is not written to."""
    copy = to_device(tensor, device)
    if copy is not tensor and tensor.device.type == "cpu" and not copy.is_inference():
        _sources[copy] = tensor, copy._version
    return copy


def source(copy: torch.Tensor) -> torch.Tensor | None:
    """The values of ``copy`` on the CPU, where they are known there; do not write to them."""
    found = _sources.get(copy)
    return found[0] if found is not None and found[1] == copy._version else None


def picked(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """``tensor[index]``, known on the host where ``tensor`` is and ``index`` is there."""
    known = source(tensor)
    if known is None or index.device.type != "cpu":
        return tensor[to_device(index, tensor.device)]
    return known_on_host(known[index], tensor.device)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` on the CPU, without a wait for the device where its values are known there."""
    known = source(tensor)
    return tensor.cpu() if known is None else known
