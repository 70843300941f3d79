"""A limit of memory, page cache included, that the kernel keeps for a process and its children."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# Files of the limit, of the peak and of the processes, version 1 and 2 of control groups.
VERSIONS = (
    (ROOT / "memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    (ROOT, "memory.max", "memory.peak"),
)
REMEDY = "run it as root, or in a container of that size: docker run --memory=1g --memory-swap=1g ..."


class MemoryLimit:
    """Puts this process into a group of its own with the limit; in a container that has one, that one counts."""

    def __init__(self, limit: int) -> None:
        self.folder, self._limit_file, self._peak_file = _group()
        if self.limit > limit:
            self.folder = self.folder / f"limited-{os.getpid()}"
            try:
                self.folder.mkdir()
                (self.folder / self._limit_file).write_text(str(limit))
                (self.folder / "cgroup.procs").write_text(str(os.getpid()))
            except OSError as error:
                raise RuntimeError(f"{self.folder}: cannot limit it to {limit} bytes ({error}); {REMEDY}") from error
        if self.limit > limit:
            raise RuntimeError(f"{self.folder}: the limit is {self.limit} bytes, not {limit}; {REMEDY}")

    @property
    def limit(self) -> int:
        """Bytes."""
        text = (self.folder / self._limit_file).read_text().strip()
        return 1 << 62 if text == "max" else int(text)

    @property
    def peak(self) -> int:
        """Bytes, of page cache too: it grows until the limit, and then gives way."""
        return int((self.folder / self._peak_file).read_text())

    def used(self, *kinds: str) -> int:
        """Bytes that the group uses now, of kinds of memory.stat."""
        text = (self.folder / "memory.stat").read_text()
        return sum(int(value) for name, value in re.findall(r"^(\S+) (\d+)$", text, re.MULTILINE) if name in kinds)


def _group() -> tuple[Path, str, str]:
    for folder, limit_file, peak_file in VERSIONS:
        if (folder / limit_file).exists() or (folder / "memory.stat").exists():
            return folder, limit_file, peak_file
    raise RuntimeError(f"{ROOT}: no control group of memory; {REMEDY}")
