"""Files and folders that are there whole or not at all, also after a loss of power."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hybrid_torchrec.checkpoint.errors import explained

DIGEST_BYTES = 16
_BLOCK = 1 << 20


def digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    sums = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with explained(path, "reading"), path.open("rb") as file:
        while block := file.read(_BLOCK):
            sums.update(block)
    return sums.hexdigest()


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


def write_whole(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def remove_folder(path: Path) -> None:
    """Removes a complete folder so that no half of it is ever taken for a whole: first its name, then what is in it."""
    doomed = path.with_name(f".removed-{path.name}-{uuid.uuid4().hex[:8]}")
    with explained(path, "removing"):
        path.rename(doomed)
        sync_folder(path.parent)
        shutil.rmtree(doomed)
