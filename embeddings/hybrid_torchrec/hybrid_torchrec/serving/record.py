"""Record: what changed in some tables between two publications, as one checksummed file of the delta stream."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hybrid_torchrec.checkpoint.errors import CorruptCheckpoint, explained
from hybrid_torchrec.checkpoint.files import DIGEST_BYTES, digest, write_whole

SUFFIX = ".record"
_END = b"grstream"  # the last bytes of a whole record


@dataclass(frozen=True)
class Changes:
    """Of one table: rows that are new or changed, ids (R,) int64 and weights (R, D); and ids (E,) that are gone."""

    ids: Tensor
    weights: Tensor
    erased: Tensor


@dataclass(frozen=True)
class Record:
    """`sequence` counts from 1 within a shard of a run; `created` is time.time() of the rows' state."""

    run: str
    sequence: int
    step: int
    tables: dict[str, Changes]
    created: float = field(default_factory=time.time)

    @property
    def rows(self) -> int:
        return sum(len(changes.ids) + len(changes.erased) for changes in self.tables.values())

    def encode(self) -> bytes:
        names = sorted(self.tables)
        about = {
            "run": self.run,
            "sequence": str(self.sequence),
            "step": str(self.step),
            "created": repr(self.created),
            "tables": json.dumps(names),
        }
        tensors = {}
        for index, name in enumerate(names):
            changes = self.tables[name]
            tensors[f"{index}.ids"] = changes.ids.contiguous()
            tensors[f"{index}.weights"] = changes.weights.contiguous()
            tensors[f"{index}.erased"] = changes.erased.contiguous()
        head = json.dumps(about, sort_keys=True).encode()
        body = len(head).to_bytes(8, "little") + head + save(tensors)
        return body + bytes.fromhex(digest(body)) + _END

    @classmethod
    def decode(cls, data: bytes, source: str) -> Record:
        """Raises CorruptCheckpoint naming `source`."""
        body, end = data[: -len(_END) - DIGEST_BYTES], data[-len(_END) - DIGEST_BYTES :]
        if len(end) < len(_END) + DIGEST_BYTES or not data.endswith(_END):
            raise CorruptCheckpoint(f"{source}: not a whole record of the delta stream ({len(data)} bytes)")
        if bytes.fromhex(digest(body)) != end[:DIGEST_BYTES]:
            raise CorruptCheckpoint(f"{source}: checksum differs; the consumer asks for a new base by itself")
        try:
            length = int.from_bytes(body[:8], "little")
            about = json.loads(body[8 : 8 + length])
            tensors = load(body[8 + length :])
        except (ValueError, SafetensorError) as error:
            raise CorruptCheckpoint(f"{source}: not a record that this version reads ({error})") from error
        tables = {
            name: Changes(*(tensors[f"{index}.{part}"] for part in ("ids", "weights", "erased")))
            for index, name in enumerate(json.loads(about["tables"]))
        }
        return cls(about["run"], int(about["sequence"]), int(about["step"]), tables, float(about["created"]))

    def write(self, folder: Path) -> Path:
        """Puts the record into `folder`, whole or not at all."""
        path = folder / file_name(self.sequence)
        write_whole(path, self.encode())
        return path

    @classmethod
    def read(cls, path: Path) -> Record:
        with explained(path, "reading"):
            data = path.read_bytes()
        return cls.decode(data, str(path))


def file_name(sequence: int) -> str:
    return f"{sequence:012d}{SUFFIX}"
