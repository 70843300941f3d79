"""Layout of a delta stream in a folder that trainers and servers share.

root/CURRENT                              run, number of shards; replaced whole
root/<run>/shard-00000-of-00002/
    PUBLISHER                             the run's name: a publisher of this library wrote this folder
    export-<sequence>/                    a base: all rows as of that record (checkpoint/export.py)
    <sequence>.record                     the changes that follow
    request-<consumer>                    a consumer that cannot go on asks for a new base

Whatever else is in `root`, or in these folders, is others': it is not read, and not removed.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, StorageFailure, explained
from hybrid_torchrec.checkpoint.files import names_in, write_whole
from hybrid_torchrec.checkpoint.folder import CheckpointFolder, Entry
from hybrid_torchrec.checkpoint.removal import remove_folder, remove_torn
from hybrid_torchrec.serving.record import SUFFIX, file_name

_log = logging.getLogger(__name__)
_CURRENT = "CURRENT"
_MARK = "PUBLISHER"
_REQUEST = "request-"
_SHARD = re.compile(r"shard-\d{5}-of-\d{5}")
_RECORD = re.compile(rf"(\d{{12,}}){re.escape(SUFFIX)}")
_OURS = re.compile(rf"{_RECORD.pattern}|{_REQUEST}[^/]*|\.lock|\..+\.[0-9a-f]{{8}}\.tmp")


@dataclass(frozen=True)
class Current:
    run: str
    shards: int

    @classmethod
    def read(cls, root: Path) -> Current | None:
        """None if nothing was ever published."""
        path = root / _CURRENT
        try:
            with explained(path, "reading"):
                return cls(**json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise CorruptCheckpoint(
                f"{path}: not that of a delta stream ({error}); publish to another folder, or move it away (`mv {path} "
                "ELSEWHERE`) and restart the trainers, which write it anew"
            ) from error
        except Exception:
            if not path.exists():
                return None
            raise

    def write(self, root: Path) -> None:
        write_whole(root / _CURRENT, json.dumps(asdict(self)).encode())


@dataclass(frozen=True)
class StreamShard:
    """The folder of one publishing rank."""

    path: Path

    @classmethod
    def of(cls, root: Path, run: str, shard: int, shards: int) -> StreamShard:
        return cls(root / run / f"shard-{shard:05d}-of-{shards:05d}")

    def mark(self, run: str) -> None:
        """Before anything else is written: what is not marked, nobody removes."""
        write_whole(self.path / _MARK, run.encode())

    def sequences(self) -> list[int]:
        """Of the records that are there, ascending."""
        matches = [_RECORD.fullmatch(name) for name in names_in(self.path)]
        return sorted(int(match[1]) for match in matches if match)

    def record(self, sequence: int) -> Path:
        return self.path / file_name(sequence)

    def bases(self) -> list[Entry]:
        """By sequence, which stands in the place of the step."""
        return CheckpointFolder(self.path).entries(("export",))

    def request_base(self, consumer: str, reason: str) -> None:
        write_whole(self.path / f"{_REQUEST}{quote(consumer, safe='')}", reason.encode())

    def requests(self) -> list[Path]:
        return sorted(self.path.glob(f"{_REQUEST}*"))

    def remove_bases(self, bases: Iterable[Entry]) -> None:
        """A damaged one stays: what of it is ours cannot be told."""
        for base in bases:
            try:
                remove_folder(base.path)
            except CorruptCheckpoint as error:
                _log.warning("%s; it stays", error)

    def remove(self) -> None:
        """What publishers and consumers wrote here, the mark last; the folder too, if nothing else is in it."""
        with explained(self.path, "removing"):
            folder = CheckpointFolder(self.path)
            self.remove_bases(self.bases())
            for torn in folder.torn():
                remove_torn(torn)
            names = names_in(self.path)
            for name in names:
                if _OURS.fullmatch(name):
                    (self.path / name).unlink(missing_ok=True)
            others = [name for name in names if name != _MARK and not _OURS.fullmatch(name)]
            if others:
                _log.warning("%s: is not of the stream: %s; it stays", self.path, ", ".join(sorted(others)))
            (self.path / _MARK).unlink(missing_ok=True)
            if not others:
                self.path.rmdir()


def remove_runs(root: Path, *, but: set[str]) -> None:
    """Removes the runs of publishers in `root` other than `but`: shards that bear the name of the run they lie in."""
    for run in sorted(set(names_in(root)) - but):
        if (root / run).is_symlink():
            continue
        shards = [name for name in names_in(root / run) if _SHARD.fullmatch(name)]
        marked = [StreamShard(root / run / name) for name in shards if _marked(root / run / name, run)]
        for shard in marked:
            try:
                shard.remove()
            except StorageFailure as error:
                _log.warning("%s", error)
        if marked and not names_in(root / run):
            (root / run).rmdir()


def _marked(shard: Path, run: str) -> bool:
    try:
        return not shard.is_symlink() and (shard / _MARK).read_bytes() == run.encode()
    except OSError:
        return False
