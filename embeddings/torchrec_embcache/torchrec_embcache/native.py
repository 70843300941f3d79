"""The C interface of libembcache_store.so (csrc/library.cpp).

ctypes lets go of the interpreter's lock during a call, so a prefetch thread does not stop the training thread.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from hybrid_torchrec.library import directory_of, existing

LIBRARY = "libembcache_store.so"
BUILD_COMMAND = "python -m pip install --no-deps --no-build-isolation embeddings/torchrec_embcache"


def library_path() -> Path:
    """EMBCACHE_LIBRARY_DIR (a CMake build folder), else beside this file."""
    return directory_of(__file__, "EMBCACHE_LIBRARY_DIR") / LIBRARY


@cache
def load() -> ctypes.CDLL:
    library = ctypes.CDLL(existing(library_path(), BUILD_COMMAND))
    i32, u32, i64, u64, pointer, text = (
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.c_int64,
        ctypes.c_uint64,
        ctypes.c_void_p,
        ctypes.c_char_p,
    )
    columns = [pointer, pointer, i32]
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "open": (i32, [text, u32, i64, i64, i32, i32, i32, pointer, text]),
        "write": (i32, [pointer, pointer, i64, *columns, text]),
        "read": (i32, [pointer, pointer, i64, *columns, pointer, text]),
        "erase": (i32, [pointer, pointer, i64, pointer, text]),
        "scan": (i32, [pointer, pointer, pointer, i64, pointer, *columns, pointer, text]),
        "flush": (i32, [pointer, i32, text]),
        "close": (None, [pointer]),
        "stats": (None, [pointer, pointer]),
        "counts_new": (pointer, []),
        "counts_delete": (None, [pointer]),
        "counts_add": (i64, [pointer, pointer, i64]),
        "counts_remove": (i64, [pointer, pointer, i64]),
        "counts_contains": (i64, [pointer, pointer, i64, pointer]),
        "positions_new": (pointer, [pointer, i64]),
        "positions_delete": (None, [pointer]),
        "positions_find": (None, [pointer, pointer, i64, pointer]),
        "distinct": (i64, [pointer, i64, pointer]),
        "crc32c": (u32, [text, u64, i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"embcache_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def crc32c(data: bytes, *, portable: bool = False) -> int:
    """CRC-32C; portable: without the processor's instruction."""
    return int(load().embcache_crc32c(data, len(data), portable))


def distinct(ids: torch.Tensor) -> torch.Tensor:
    """The distinct ids of ids (L,) int64 on the CPU, in the order of their first occurrence."""
    ids = ids.contiguous()
    out = torch.empty_like(ids)
    count = load().embcache_distinct(ids.data_ptr(), ids.numel(), out.data_ptr())
    if count < 0:
        raise MemoryError(f"no memory to tell {ids.numel()} ids apart")
    return out[:count].clone()


class IdCounts:
    """How many batches need each id (csrc/id_counts.h). Ids are contiguous int64 tensors on the CPU, distinct."""

    def __init__(self) -> None:
        self._library = load()
        self._handle = self._library.embcache_counts_new()
        if not self._handle:
            raise MemoryError("no memory for the ids of the look-ahead")
        self._size = 0

    def __del__(self) -> None:
        self._library.embcache_counts_delete(self._handle)

    def __len__(self) -> int:
        """Ids with a count."""
        return self._size

    def add(self, ids: torch.Tensor) -> None:
        fresh = self._library.embcache_counts_add(self._handle, ids.data_ptr(), ids.numel())
        if fresh < 0:
            raise MemoryError(f"no memory for {ids.numel()} more ids in the look-ahead")
        self._size += fresh

    def remove(self, ids: torch.Tensor) -> None:
        self._size -= self._library.embcache_counts_remove(self._handle, ids.data_ptr(), ids.numel())

    def contains(self, ids: torch.Tensor) -> torch.Tensor:
        """(L,) bool."""
        there = torch.empty(ids.numel(), dtype=torch.bool)
        self._library.embcache_counts_contains(self._handle, ids.data_ptr(), ids.numel(), there.data_ptr())
        return there


class IdPositions:
    """Where each of distinct ids (N,) int64 on the CPU stands among them (csrc/id_positions.h); any thread may ask."""

    def __init__(self, ids: torch.Tensor) -> None:
        self._library = load()
        ids = ids.contiguous()
        self._handle = self._library.embcache_positions_new(ids.data_ptr(), ids.numel())
        if not self._handle:
            raise MemoryError(f"no memory to find {ids.numel()} ids")

    def __del__(self) -> None:
        self._library.embcache_positions_delete(self._handle)

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Positions of ids (L,), -1 where absent; (L,) int64."""
        ids = ids.contiguous()
        positions = torch.empty_like(ids)
        self._library.embcache_positions_find(self._handle, ids.data_ptr(), ids.numel(), positions.data_ptr())
        return positions
