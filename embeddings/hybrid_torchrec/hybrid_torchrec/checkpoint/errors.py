"""What can go wrong with saved tables. Every message names the file and what to do next.

CheckpointError
├── NoCheckpoint        nothing complete to load
├── CorruptCheckpoint   a file is not what was written
├── BrokenChain         a delta is missing, or out of order
├── TableMismatch       the table that loads is not the table that was saved
└── StorageFailure      the operating system refused: full, read-only, gone
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


class CheckpointError(RuntimeError):
    pass


class NoCheckpoint(CheckpointError):
    pass


class CorruptCheckpoint(CheckpointError):
    pass


class BrokenChain(CheckpointError):
    pass


class TableMismatch(CheckpointError):
    pass


class StorageFailure(CheckpointError):
    pass


_FULL = {errno.ENOSPC: "no space left", errno.EDQUOT: "quota used up", errno.EFBIG: "file size limit reached"}
_READ_ONLY = {errno.EROFS: "file system is read-only", errno.EACCES: "no permission", errno.EPERM: "not permitted"}


def storage_failure(error: OSError, path: str | os.PathLike[str], doing: str) -> StorageFailure:
    """`error` in the user's words: what happened, to which file, and the remedy."""
    if error.errno in _FULL:
        return StorageFailure(
            f"{path}: {_FULL[error.errno]} while {doing}; what was complete before is untouched. "
            f"Free space (`df -h {os.path.dirname(path) or '.'}`, `ulimit -f`) or lower `keep`, then save again"
        )
    if error.errno in _READ_ONLY:
        return StorageFailure(
            f"{path}: {_READ_ONLY[error.errno]} while {doing}; what was complete before is untouched. "
            f"Make the folder writable for user {os.getuid()} (`ls -ld {os.path.dirname(path) or '.'}`) or take another"
        )
    return StorageFailure(f"{path}: {error.strerror or error} while {doing}")


@contextmanager
def explained(path: str | os.PathLike[str], doing: str) -> Iterator[None]:
    """Turns an OSError inside into a StorageFailure that names `path`, or the file that the system names."""
    try:
        yield
    except OSError as error:
        raise storage_failure(error, error.filename or path, doing) from error
