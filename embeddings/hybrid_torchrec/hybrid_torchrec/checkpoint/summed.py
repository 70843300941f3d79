"""SummedFile: a file of a checkpoint, written once, in order, past the page cache where the file system lets it."""

from __future__ import annotations

import errno
import fcntl
import io
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_torchrec.checkpoint.files import Checksum
from hybrid_torchrec.checkpoint.manifest import FileSum

BLOCK_BYTES = 4 << 20


class SummedFile(io.RawIOBase):
    """It knows its checksum; fsync of fileno() covers all that was written before.

    Whole blocks go to the disk directly (O_DIRECT): nobody reads a checkpoint soon, pages for it would push out the
    data that training reads, and to fill them took most of a save's processor time (benchmarks/checkpoints.py).
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._block = np.frombuffer(mmap.mmap(-1, BLOCK_BYTES), np.uint8)  # pages: O_DIRECT asks for their alignment
        self._held = 0  # bytes of the block that are to be written
        self._direct: bool | None = None  # None: not tried yet
        self._sums = Checksum()
        self._bytes = 0
        self.error: OSError | None = None  # torch.save hides what write() raises

    def write(self, data: Any) -> int:
        given = np.frombuffer(memoryview(data).cast("B"), np.uint8)
        for first in range(0, len(given), BLOCK_BYTES):
            self._take(given[first : first + BLOCK_BYTES])
        return len(given)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def fileno(self) -> int:
        """After writing what is held, which ends direct writing: the file need not have whole pages any more."""
        if self._held:
            self._set_direct(False)
            self._write_held()
        return self._handle

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.fileno()
        finally:
            os.close(self._handle)
            super().close()

    @property
    def sum(self) -> FileSum:
        return FileSum(self._bytes, self._sums.hexdigest())

    def _take(self, given: np.ndarray) -> None:
        """At most a block: what fits, and the rest after that is written."""
        while len(given):
            part = given[: BLOCK_BYTES - self._held]
            into = self._block[self._held : self._held + len(part)]
            into[:] = part
            self._sums.update(into.data)
            self._bytes += len(part)
            self._held += len(part)
            given = given[len(part) :]
            if self._held == BLOCK_BYTES:
                if self._direct is None:
                    self._set_direct(True)
                self._write_held()

    def _write_held(self) -> None:
        rest = self._block[: self._held].data
        try:
            while len(rest):
                rest = rest[self._write_some(rest) :]
        except OSError as error:
            self.error = error
            raise
        self._held = 0

    def _write_some(self, data: memoryview) -> int:
        if self._direct and len(data) % mmap.PAGESIZE:  # an earlier write ended short
            self._set_direct(False)
        try:
            return os.write(self._handle, data)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._direct:
                raise
        self._set_direct(False)  # the file system wants another alignment
        return os.write(self._handle, data)

    def _set_direct(self, wanted: bool) -> None:
        self._direct = wanted
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._handle, fcntl.F_SETFL, flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT)
        except OSError:  # the file system cannot; its pages are written as any file's
            self._direct = False
