"""Content keys: the hash of everything that a step's result depends on."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from grstack.files import sha256_of

# Files that no build reads: their change rebuilds nothing, and they go into no image.
LEFTOVERS = ("__pycache__", ".pytest_cache", ".hypothesis", "*.pyc", "*.md")
TESTS = ("tests", "conftest.py")  # go into devel variants alone
IGNORED = (*LEFTOVERS, *TESTS)


def ignored(name: str, patterns: Sequence[str] = IGNORED) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def files_under(path: Path, *, tests: bool = False) -> list[Path]:
    """Every file of a tree (or the file itself), in a fixed order, without what is IGNORED; `tests`: with these."""
    patterns = LEFTOVERS if tests else IGNORED
    if path.is_file():
        return [path]
    found: list[Path] = []
    for directory, names, files in os.walk(path):
        names[:] = sorted(n for n in names if not ignored(n, patterns))
        found += [Path(directory) / f for f in sorted(files) if not ignored(f, patterns)]
    return found


def of_tree(path: Path, *, tests: bool = False) -> str:
    """Names, modes and contents of a tree; a missing path has a key of its own, so that its appearance is a change."""
    if not path.exists():
        return of_text("missing")
    digest = hashlib.sha256()
    for file in files_under(path, tests=tests):
        executable = "x" if os.access(file, os.X_OK) else "-"
        name = file.relative_to(path).as_posix() if file != path else file.name
        digest.update(f"{name}\0{executable}\0{sha256_of(file)}\n".encode())
    return digest.hexdigest()


def combine(inputs: Iterable[tuple[str, str]]) -> str:
    """The key of a step from its labelled inputs, whose order does not count."""
    return of_text("\n".join(f"{label}={digest}" for label, digest in sorted(inputs)))
