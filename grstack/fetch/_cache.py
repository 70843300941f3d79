"""Wheels by content: <cache>/<sha256>/<file name>, beside a stamp that saves hashing gigabytes again."""

from __future__ import annotations

import shutil
from pathlib import Path

from grstack.errors import HashMismatch
from grstack.files import disk_full, sha256_of, write_atomically
from grstack.locks import Package

STAGED = "fetching-"  # begins the names of folders that downloads go to


class WheelCache:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.staging = root / "tmp"
        self.lock_file = root / "fetch.lock"

    def path(self, package: Package) -> Path:
        return self.root / package.sha256 / package.filename

    def find(self, package: Package) -> Path | None:
        """The cached wheel, or None. A file whose size or time is not the stamp's is hashed again."""
        path = self.path(package)
        try:
            seen = _stamp(path)
        except FileNotFoundError:
            return None
        stamp = path.with_name("stamp")
        try:
            if stamp.read_text(encoding="utf-8") == seen:
                return path
        except FileNotFoundError:
            pass
        if sha256_of(path) != package.sha256:
            for damaged in (path, stamp):  # after it was stored: fetched again
                damaged.unlink(missing_ok=True)
            return None
        write_atomically(stamp, seen)
        return path

    def add(self, package: Package, file: Path) -> Path:
        """Moves a downloaded file into the cache. Raises HashMismatch, and deletes it, when it is another file."""
        got = sha256_of(file)
        if got != package.sha256:
            file.unlink()
            raise mismatch(package, got)
        path = self.path(package)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file.replace(path)
        except OSError as error:
            raise disk_full(error, path) or error from None
        write_atomically(path.with_name("stamp"), _stamp(path))
        return path

    def clean_staging(self) -> None:
        """Removes what an interrupted run left. Only for the holder of `lock_file`."""
        self.staging.mkdir(parents=True, exist_ok=True)
        for left in self.staging.glob(f"{STAGED}*"):
            shutil.rmtree(left, ignore_errors=True)


def mismatch(package: Package, got: str) -> HashMismatch:
    return HashMismatch(
        f"{package.filename} is not the locked file; nothing of it was kept\n"
        f"  locked: sha256 {package.sha256}\n  got:    sha256 {got or 'unknown'}",
        where=f"{package.name} {package.version}",
        next_command="pip config list   # which index served it; if the pin is wrong: inv lock",
    )


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"
