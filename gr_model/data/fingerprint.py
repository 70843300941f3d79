"""Which files shards were made from: by size and time, or by what the files hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gr_model.common import in_image, ticker
from gr_model.common.ticker import Say, Ticker
from gr_model.data.interactions import DataError
from gr_model.data.source import Source

CHUNK = 1 << 20


def of(source: Source, folder: Path, say: Say = ticker.nothing) -> dict[str, Any]:
    """For each file its size and time; with `source.by_content` its SHA-256 too, and what tells that it was not touched.

    DataError for a file that is not there.
    """
    found: dict[str, Any] = {}
    for name in source.files:
        path = folder / name
        try:
            size, written = path.stat().st_size, path.stat().st_mtime_ns
            if source.by_content:
                found[name] = {"untouched": _untouched(path), "sha256": _sha256(path, say)}
            else:
                found[name] = [size, written]
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; {in_image.fetch_data(folder)}") from None
    return found


def same(before: dict[str, Any], source: Source, folder: Path, say: Say = ticker.nothing) -> bool:
    """Whether the files are those of `before`. Files that nobody wrote since are not read again."""
    if not source.by_content:
        return before == of(source, folder)
    return set(before) == set(source.files) and all(
        told["untouched"] == _untouched(folder / name) or told["sha256"] == _sha256(folder / name, say)
        for name, told in before.items()
    )


def content(files: dict[str, Any]) -> str:
    """One name for what `files` hold; "" where only sizes and times are known."""
    hashes = [told["sha256"] for told in files.values() if isinstance(told, dict)]
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest() if hashes else ""


def _untouched(path: Path) -> list[int]:
    """The kernel sets the time of the last change (ctime) at every write; no program can set it back."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _sha256(path: Path, say: Say) -> str:
    digest, size, tick = hashlib.sha256(), path.stat().st_size, Ticker(say)
    say(f"{path.name}: its SHA-256, of {size:,} bytes")
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            tick(f"{path.name}: its SHA-256, {file.tell():,} of {size:,} bytes so far")
    return digest.hexdigest()
