"""Steps marked for the tools of an NPU: ranges of mstx, which `msprof --msproftx=on` shows between the kernels.

The emulated NPU counts by them (TWIN_COUNTS, docs/twin.md). torch_npu.npu.mstx would drop them outside of its own
profiler, so the toolkit's library is called itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

LIBRARY = "libms_tools_ext.so"


@contextmanager
def step(number: int, device: torch.device) -> Iterator[None]:
    """What is done inside belongs to step `number`; nothing is marked on other devices, or without the library."""
    library = _library() if device.type == "npu" else None
    if library is None:
        yield
        return
    opened = library.mstxRangeStartA(f"step {number}".encode(), None)
    try:
        yield
    finally:
        library.mstxRangeEnd(opened)


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    library.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.mstxRangeStartA.restype = ctypes.c_uint64
    library.mstxRangeEnd.argtypes = [ctypes.c_uint64]
    library.mstxRangeEnd.restype = None
    return library
