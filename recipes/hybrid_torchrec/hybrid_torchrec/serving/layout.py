"""Layout of a delta stream in a folder that trainers and servers share.

root/CURRENT                              run, number of shards; replaced whole
root/<run>/shard-00000-of-00002/
    export-<sequence>/                    a base: all rows as of that record (checkpoint/export.py)
    <sequence>.record                     the changes that follow
    request-<consumer>                    a consumer that cannot go on asks for a new base
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, explained
from hybrid_torchrec.checkpoint.files import names_in, write_whole
from hybrid_torchrec.checkpoint.folder import CheckpointFolder, Entry
from hybrid_torchrec.serving.record import SUFFIX, file_name

_CURRENT = "CURRENT"
_REQUEST = "request-"


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
            raise CorruptCheckpoint(f"{path}: not readable ({error}); restart the trainers to write it anew") from error
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

    def sequences(self) -> list[int]:
        """Of the records that are there, ascending."""
        names = names_in(self.path)
        return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX) and name[0] != ".")

    def record(self, sequence: int) -> Path:
        return self.path / file_name(sequence)

    def bases(self) -> list[Entry]:
        """By sequence, which stands in the place of the step."""
        return CheckpointFolder(self.path).entries(("export",))

    def request_base(self, consumer: str, reason: str) -> None:
        write_whole(self.path / f"{_REQUEST}{consumer}", reason.encode())

    def requests(self) -> list[Path]:
        return sorted(self.path.glob(f"{_REQUEST}*"))
