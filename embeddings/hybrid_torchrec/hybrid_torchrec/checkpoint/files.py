"""Files and folders that are there whole or not at all, also after a loss of power."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch

from hybrid_torchrec.checkpoint.errors import explained

DIGEST_BYTES = 16
_BLOCK = 1 << 20


class Checksum:
    """XXH64 of bytes that come in pieces: tells damage from what was written, ten times as fast as BLAKE2."""

    def __init__(self) -> None:
        self._sum = torch.classes.hybrid_torchrec.Checksum()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        array = np.frombuffer(data, np.uint8)
        self._sum.update(array.ctypes.data, array.nbytes)

    def hexdigest(self) -> str:
        return f"{self._sum.digest() % 2**64:016x}"


def digest(data: bytes | memoryview) -> str:
    """BLAKE2b: names a manifest or a record, which others refer to by it."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def checksum_of_file(path: Path) -> str:
    checksum, block = Checksum(), bytearray(_BLOCK)
    view = memoryview(block)
    with explained(path, "reading"), path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            checksum.update(view[:size])
    return checksum.hexdigest()


def sync_folder(path: Path) -> None:
    """Puts the folder's names (new files, renames) on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place at the end: a kill or a full disk leaves the old one as it was."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with explained(path, "writing"):
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def names_in(path: Path) -> list[str]:
    """None of them if there is no such folder; others may remove it at any moment."""
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def write_whole(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)
