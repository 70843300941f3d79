"""Manifest: the last file of a checkpoint, which says what must be in it; without it there is no checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, explained
from hybrid_torchrec.checkpoint.files import checksum_of_file, digest, write_whole

NAME = "MANIFEST.json"
FORMAT = 2


@dataclass(frozen=True)
class FileSum:
    bytes: int
    xxh64: str


@dataclass(frozen=True)
class Manifest:
    """`sequence` counts the deltas since the full checkpoint `base`. A delta names what it `follows`, whose digest is
    `previous`; a compacted checkpoint stands in for the delta whose digest is `replaces`. `run` is that of the trainer,
    which goes on in one that loads; only checkpoints of its own run does a trainer remove.
    """

    kind: Literal["full", "delta", "export"]
    step: int
    world: int
    files: dict[str, FileSum]
    base: str | None = None
    sequence: int = 0
    previous: str | None = None
    follows: str | None = None
    replaces: str | None = None
    tables: dict[str, dict[str, object]] = field(default_factory=dict)
    run: str | None = None  # None: of a version that did not write it, or of an export

    @property
    def name(self) -> str:
        return folder_name(self.kind, self.step)

    @property
    def digest(self) -> str:
        return digest(self._text().encode())

    def _text(self) -> str:
        return json.dumps(self._content(), sort_keys=True)

    def _content(self) -> dict[str, object]:
        content = {"format": FORMAT, **asdict(self)}
        if self.run is None:
            del content["run"]
        return content

    def write(self, folder: Path) -> None:
        content = {**self._content(), "digest": self.digest}
        write_whole(folder / NAME, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / NAME
        with explained(path, "reading"):
            data = path.read_bytes()
        try:
            content = json.loads(data)
            found = content.pop("digest")
            if content.pop("format") != FORMAT:
                raise CorruptCheckpoint(
                    f"{path}: not a manifest of format {FORMAT}; load it with the version that wrote it"
                )
            content["files"] = {name: FileSum(**entry) for name, entry in content["files"].items()}
            manifest = cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptCheckpoint(f"{path}: not a readable manifest ({error}); load an earlier checkpoint") from error
        if manifest.digest != found:
            raise CorruptCheckpoint(f"{path}: checksum is {manifest.digest}, not {found}; load an earlier checkpoint")
        return manifest

    def verify(self, folder: Path, share: int = 0, shares: int = 1) -> None:
        """Compares size and checksum of every `shares`-th file from `share` on; all faults are named at once."""
        faults = []
        for name, expected in sorted(self.files.items())[share::shares]:
            path = folder / name
            if not path.exists():
                faults.append(f"{path}: missing")
            elif path.stat().st_size != expected.bytes:
                faults.append(f"{path}: {path.stat().st_size} bytes, not {expected.bytes}")
            elif (found := checksum_of_file(path)) != expected.xxh64:
                faults.append(f"{path}: checksum {found}, not {expected.xxh64}")
        if faults:
            raise CorruptCheckpoint("; ".join(faults) + "; restore the file from a copy or load an earlier checkpoint")


def folder_name(kind: str, step: int) -> str:
    return f"{kind}-{step:012d}"
