"""What a batch is made of, on its way from the host to the device."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

ALIGNED = 16  # elements of 8 bytes: where a kernel's vectors and a GPU's cache lines begin
LEAST = 1 << 20  # bytes of a piece of pinned memory


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """`array` on `device`. NPUs and GPUs read it from pinned memory while the host goes on; else the host would wait
    for all that was queued before it."""
    return moved(torch.from_numpy(array), device)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """As to_device; a tensor that is on the device already stays what it is."""
    if device.type == "cpu" or tensor.device.type != "cpu":
        return tensor.to(device)
    if device.type != "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    with _pinned(tensor.nbytes) as piece:
        whole = piece.view(tensor.dtype)[: tensor.numel()].view(tensor.shape)
        return whole.copy_(tensor).to(device, non_blocking=True)


def together(arrays: Sequence[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """As to_device, of int64 arrays of any shapes. A GPU gets them in one copy, and they share its memory."""
    if device.type != "cuda":
        return [to_device(np.ascontiguousarray(array, np.int64), device) for array in arrays]
    total = sum(_spaces(arrays))
    with _pinned(8 * total) as piece:
        whole = piece.view(torch.int64)[:total]
        pack(arrays, whole)
        return unpack(arrays, whole.to(device, non_blocking=True))


_lock = threading.Lock()
_pieces: dict[int, list[tuple[torch.Tensor, torch.cuda.Event]]] = {}


@contextmanager
def _pinned(size: int) -> Iterator[torch.Tensor]:
    """At least so many bytes of pinned memory, from which the current stream copies: used again when it has. To ask
    CUDA for pinned memory takes milliseconds, and PyTorch's own pieces were found not to come back in time."""
    rounded = max(LEAST, 1 << (size - 1).bit_length())
    pieces = _pieces.setdefault(rounded, [])
    with _lock:
        at = next((n for n, (_, copied) in enumerate(pieces) if copied.query()), None)
        free = None if at is None else pieces.pop(at)
    piece, copied = free or (torch.empty(rounded, dtype=torch.uint8, pin_memory=True), torch.cuda.Event())
    try:
        yield piece
    finally:
        copied.record()
        pieces.append((piece, copied))


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
