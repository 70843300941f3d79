"""vendors/config.ini: `load_priority=a,b`, the order in which the runtime asks vendors (first wins)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "config.ini"
KEY = "load_priority="


def priority(vendors: Path) -> tuple[str, ...]:
    """The vendors of load_priority; nothing where there is no file or no such line."""
    file = vendors / FILE
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    names = next((line.removeprefix(KEY) for line in lines if line.startswith(KEY)), "")
    return tuple(name.strip() for name in names.split(",") if name.strip())


def take_out(vendors: Path, vendor: str) -> None:
    """Removes one vendor from load_priority, and the file if nothing else is in it; other lines stay."""
    file = vendors / FILE
    left = [name for name in priority(vendors) if name != vendor]
    if not file.is_file():
        return
    others = [line for line in file.read_text().splitlines() if not line.startswith(KEY)]
    if not left and not any(line.strip() for line in others):
        file.unlink()
        return
    new = vendors / f".{FILE}.{os.getpid()}"
    new.write_text("\n".join([*([KEY + ",".join(left)] if left else []), *others]) + "\n")
    new.chmod(file.stat().st_mode & 0o777)
    new.replace(file)


@contextmanager
def locked(vendors: Path) -> Iterator[None]:
    """The lock that the packages' own installers take: the directory itself."""
    handle = os.open(vendors, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
