"""One process writes a run's folder at a time: by a lock, or by a file where the file system has no locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gr_model.common.errors import GrModelError

LOCK = ".run-lock"
OWNER = ".run-owner"  # where the file system has no locks


class RunFolderError(GrModelError, RuntimeError):
    """The run cannot go there."""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """The lock is the process's own: readers that it forked do not keep it, and it goes with a kill."""
    with (out / LOCK).open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise RunFolderError(
                f"{out}: another process writes this run at this moment\n  next: wait for it, or take another --out"
            ) from None
        except OSError:  # a file system without locks
            with _owned(out):
                yield
            return
        yield


@contextmanager
def _owned(out: Path) -> Iterator[None]:
    """In place of a lock: a file that only one process can make. A process that was killed leaves it behind."""
    path = out / OWNER
    for _ in range(2):
        try:
            with path.open("x") as file:
                file.write(f"{socket.gethostname()} {os.getpid()}")
            break
        except FileExistsError:
            if not _left_behind(path):
                raise RunFolderError(
                    f"{out}: another process writes this run at this moment ({path} names its host and number)\n"
                    f"  next: wait for it, or take another --out; if that process is gone: rm {shlex.quote(str(path))}"
                ) from None
            path.unlink(missing_ok=True)
    else:
        raise RunFolderError(f"{out}: another process began to write this run\n  next: take another --out")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _left_behind(path: Path) -> bool:
    """Whether the process of an owner's file is gone; of another host nobody can tell."""
    with contextlib.suppress(OSError, ValueError):
        host, process = path.read_text().rsplit(maxsplit=1)
        if host != socket.gethostname():
            return False
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
    return False
