"""Apply unified diffs exactly: no fuzz, no offset, and the whole file must be the expected one.

`patch` accepts a hunk some lines away from where it was made, and neither it nor
`git apply` looks at text outside the hunks. Here the blob hashes on a diff's `index` line are
checked too, so any change to a patched file is noticed, wherever it is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})")
_NO_NEWLINE = b"\\ No newline at end of file"


class PatchError(Exception):
    """A patch cannot be applied exactly; the message names patch, file and hunk."""


@dataclass
class Hunk:
    """One hunk; `start` is the first old line, from 1 (0 for a new file)."""

    number: int
    start: int
    header: str
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FilePatch:
    """The hunks for one file; `before` and `after` are git blob hashes (all zeros: absent)."""

    path: str
    before: str = ""
    after: str = ""
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def creates(self) -> bool:
        return set(self.before) == {"0"}


def blob_hash(data: bytes) -> str:
    """Git's hash of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def read_series(folder: Path) -> list[Path]:
    """The patches that `folder/series` names, in order; stray or missing patch files are errors."""
    lines = (folder / "series").read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    present = {path.name for path in folder.glob("*.patch")}
    for name in names:
        if name not in present:
            raise PatchError(f"{folder / 'series'} names {name}, which is not there")
    stray = present - set(names)
    if stray:
        raise PatchError(f"not in {folder / 'series'}: {', '.join(sorted(stray))}")
    return [folder / name for name in names]


def parse(patch: Path) -> list[FilePatch]:
    """Read a patch as `git diff --full-index` writes it, after a free-text header."""
    files: list[FilePatch] = []
    hunk: Hunk | None = None
    old_left = new_left = 0
    last: list[list[bytes]] = []
    for number, line in enumerate(patch.read_bytes().split(b"\n"), 1):
        if line == _NO_NEWLINE:
            for side in last:
                side[-1] = side[-1].removesuffix(b"\n")
            continue
        if hunk is not None and (old_left or new_left):
            mark, text = line[:1], line[1:] + b"\n"
            last = []
            if mark in (b" ", b"-"):
                last.append(hunk.old)
                old_left -= 1
            if mark in (b" ", b"+"):
                last.append(hunk.new)
                new_left -= 1
            if not last or old_left < 0 or new_left < 0:
                raise PatchError(f"{patch.name}:{number}: malformed hunk {hunk.number} of {files[-1].path}")
            for side in last:
                side.append(text)
            continue
        if line.startswith(b"diff --git a/"):
            files.append(FilePatch(path=line.decode().rsplit(" b/", 1)[1]))
            hunk = None
        elif files and (match := _INDEX.match(line)):
            files[-1].before, files[-1].after = match[1].decode(), match[2].decode()
        elif files and (match := _HUNK.match(line)):
            old_left, new_left = (int(match[i]) if match[i] is not None else 1 for i in (2, 4))
            hunk = Hunk(len(files[-1].hunks) + 1, int(match[1]), line.decode())
            files[-1].hunks.append(hunk)
    if old_left or new_left:
        raise PatchError(f"{patch.name}: cut off in the last hunk of {files[-1].path}")
    if not files:
        raise PatchError(f"{patch.name}: no diff in it")
    for item in files:
        if not item.before or not item.hunks:
            raise PatchError(f"{patch.name}: {item.path} has no full `index` line or no hunk")
    return files


def _apply_hunks(patch: str, item: FilePatch, data: bytes) -> bytes:
    source = data.splitlines(keepends=True)
    result: list[bytes] = []
    done = 0
    for hunk in item.hunks:
        start = hunk.start - 1 if hunk.old else hunk.start
        result += source[done:start]
        for offset, wanted in enumerate(hunk.old):
            found = source[start + offset] if start + offset < len(source) else b""
            if found != wanted:
                raise PatchError(
                    f"{patch}: {item.path}: hunk {hunk.number} ({hunk.header}) does not match at line "
                    f"{start + offset + 1}:\n  expected {wanted.decode(errors='replace')!r}\n"
                    f"  found    {found.decode(errors='replace')!r}"
                )
        result += hunk.new
        done = start + len(hunk.old)
    return b"".join(result + source[done:])


def _between_hunks(item: FilePatch) -> str:
    return ", ".join(f"{hunk.number} ({hunk.header.split(' @@')[0]} @@)" for hunk in item.hunks)


def apply_patch(patch: Path, root: Path) -> list[str]:
    """Apply one patch below `root`; returns the paths written. Nothing is written on an error."""
    results: dict[str, bytes] = {}
    for item in parse(patch):
        target = root / item.path
        if not target.resolve().is_relative_to(root.resolve()):
            raise PatchError(f"{patch.name}: {item.path} leaves the source tree")
        if item.creates:
            if target.exists():
                raise PatchError(f"{patch.name}: {item.path}: hunk 1 creates a file that exists")
            data = b""
        elif not target.is_file():
            raise PatchError(f"{patch.name}: {item.path}: hunk 1 needs a file that is not there")
        else:
            data = target.read_bytes()
        result = _apply_hunks(patch.name, item, data)
        if not item.creates and blob_hash(data) != item.before:
            raise PatchError(
                f"{patch.name}: {item.path}: every hunk matches, yet the file is not the one the patch was "
                f"made for; it differs outside hunks {_between_hunks(item)}"
            )
        if blob_hash(result) != item.after:
            raise PatchError(f"{patch.name}: {item.path}: result is not the one the patch records")
        results[item.path] = result
    for path, data in results.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return sorted(results)


def apply_series(folder: Path, root: Path) -> list[str]:
    """Apply the whole series of `folder` below `root`; returns the paths written."""
    written: set[str] = set()
    for patch in read_series(folder):
        written.update(apply_patch(patch, root))
    return sorted(written)
