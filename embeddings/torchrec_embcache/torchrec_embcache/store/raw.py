"""RawStore: rows as bytes, in the slab files of a folder."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from torchrec_embcache.errors import FAULTS, StoreIOError
from torchrec_embcache.native import load

MESSAGE_BYTES = 1024
INDEX_ROWS = 4 << 20


@dataclass(frozen=True, kw_only=True)
class StoreStats:
    """Counts of rows and records, and bytes; ``records`` has old versions and erasures, ``index_bytes`` is memory."""

    rows: int
    records: int
    slabs: int
    disk_bytes: int
    index_bytes: int
    bytes_read: int
    bytes_written: int
    bytes_compacted: int
    dropped: int


class RawStore:
    """Rows of ``row_bytes`` bytes by int64 id, in the slab files of a folder; see csrc/row_store.h for its promises.

    Columns are contiguous tensors in host memory, (R, ...) each; their bytes per row add up to ``row_bytes``.
    index_rows: entries of the index that stay in memory, or a sixteenth of all if that is more; the others go to disk.
    """

    def __init__(
        self,
        folder: Path,
        row_bytes: int,
        *,
        slab_bytes: int,
        io_threads: int,
        index_rows: int = INDEX_ROWS,
        read_only: bool = False,
        repair: bool = False,
    ) -> None:
        self._library = load()
        self._handle = ctypes.c_void_p()
        self._calls = 0  # under way: close() waits for them
        self._ended = threading.Condition()
        self._call(
            "embcache_open",
            os.fsencode(folder),
            row_bytes,
            slab_bytes,
            index_rows,
            io_threads,
            read_only,
            repair,
            ctypes.byref(self._handle),
        )

    def write(self, ids: torch.Tensor, columns: Sequence[torch.Tensor]) -> None:
        self._use("embcache_write", ids.data_ptr(), ids.numel(), *_columns(columns, ids.numel()))

    def read(self, ids: torch.Tensor, columns: Sequence[torch.Tensor]) -> torch.Tensor:
        """Fills the columns' rows of the ids that are there; returns which, (R,) bool."""
        found = torch.empty(ids.numel(), dtype=torch.bool)
        arguments = _columns(columns, ids.numel())
        self._use("embcache_read", ids.data_ptr(), ids.numel(), *arguments, found.data_ptr())
        return found

    def erase(self, ids: torch.Tensor) -> int:
        erased = ctypes.c_int64()
        self._use("embcache_erase", ids.data_ptr(), ids.numel(), ctypes.byref(erased))
        return erased.value

    def scan(
        self, cursor: tuple[int, int], ids: torch.Tensor, columns: Sequence[torch.Tensor]
    ) -> tuple[int, tuple[int, int]]:
        """Fills up to R rows from the cursor, first (0, 0); returns how many, 0 at the end, and the next cursor."""
        sequence, record = ctypes.c_uint64(cursor[0]), ctypes.c_uint32(cursor[1])
        filled = ctypes.c_int64()
        self._use(
            "embcache_scan",
            ctypes.byref(sequence),
            ctypes.byref(record),
            ids.numel(),
            ids.data_ptr(),
            *_columns(columns, ids.numel()),
            ctypes.byref(filled),
        )
        return filled.value, (sequence.value, record.value)

    def flush(self, *, snapshot: bool = False) -> None:
        self._use("embcache_flush", snapshot)

    def stats(self) -> StoreStats:
        values = (ctypes.c_int64 * 9)()
        with self._opened() as handle:
            self._library.embcache_stats(handle, values)
        return StoreStats(**dict(zip(StoreStats.__dataclass_fields__, values)))

    @property
    def is_open(self) -> bool:
        return bool(self._handle)

    def close(self) -> None:
        """Closes the files once no thread uses them; what was not flushed is still safe from the end of the process."""
        with self._ended:
            handle, self._handle = self._handle, ctypes.c_void_p()
            self._ended.wait_for(lambda: self._calls == 0)
        if handle:
            self._library.embcache_close(handle)

    @contextmanager
    def _opened(self) -> Iterator[ctypes.c_void_p]:
        with self._ended:
            if not self._handle:
                raise StoreIOError("the store is closed; open it again")
            handle = self._handle
            self._calls += 1
        try:
            yield handle
        finally:
            with self._ended:
                self._calls -= 1
                self._ended.notify_all()

    def _use(self, name: str, *arguments: object) -> None:
        with self._opened() as handle:
            self._call(name, handle, *arguments)

    def _call(self, name: str, *arguments: object) -> None:
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        fault = getattr(self._library, name)(*arguments, message)
        if fault:
            raise FAULTS[fault](message.value.decode(errors="replace"))


def _columns(columns: Sequence[torch.Tensor], rows: int) -> tuple[object, object, int]:
    for column in columns:
        if column.device.type != "cpu" or not column.is_contiguous() or column.shape[0] != rows:
            raise ValueError(f"a column must be contiguous, in host memory, of {rows} rows: got {tuple(column.shape)}")
    data = (ctypes.c_void_p * len(columns))(*(column.data_ptr() for column in columns))
    widths = (ctypes.c_uint32 * len(columns))(*(_row_bytes(column) for column in columns))
    return data, widths, len(columns)


def _row_bytes(column: torch.Tensor) -> int:
    return column.element_size() * int(torch.Size(column.shape[1:]).numel())
