"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from grstack.errors import DiskFull, GrstackError


def write_atomically(path: Path, text: str) -> None:
    """Writes by rename, so that a reader or an interruption never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(text)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_full(error, path) or error from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def disk_full(error: OSError, path: Path) -> DiskFull | None:
    """The user's error for a write that found no room, or None for any other failure."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return DiskFull("no space left on the device", where=str(path), next_command=f"df -h {path.parent}")


def not_ours(error: PermissionError, root: Path) -> GrstackError | None:
    """The user's error for a file below the checkout `root` that root has made (`sudo make smoke`), or None."""
    place = Path(os.path.abspath(os.fsdecode(error.filename or "/")))
    if not place.is_relative_to(root):
        return None
    made = [os.path.relpath(root / name) for name in ("build", "data", ".venv") if (root / name).exists()]
    return GrstackError(
        f"{os.path.relpath(place)}: {error.strerror}; an earlier command was another user's",
        next_command=f"sudo chown -R $(id -u):$(id -g) {shlex.join(made)}",
    )


def free_bytes(path: Path) -> int:
    """Free bytes on the file system of `path`, or of the nearest parent that exists."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
