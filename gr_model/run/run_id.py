"""Which run a folder holds: OUT/run-id.json. Log lines, checkpoints and reports carry the same id."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gr_model.common import files
from gr_model.common.errors import GrModelError

FORMAT = 1
FILE = "run-id.json"


class RunIdError(GrModelError, RuntimeError):
    pass


@dataclass(frozen=True)
class RunId:
    """What OUT/run-id.json says."""

    run: str  # the id
    name: str  # of the config
    config: dict[str, Any]  # as it was when the run began
    continues: dict[str, Any] | None = None  # {"run", "step", "checkpoint"} of another run that this one goes on from
    adopted: bool = False  # the folder's older part is of a version that wrote no ids


def new() -> str:
    """By time, and unlike any other."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"


def read(out: Path) -> RunId | None:
    """None where no run has marked the folder as its own."""
    path = out / FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("format") != FORMAT:
            raise RunIdError(f"{path}: of another version of gr_model; take another --out")
        return RunId(**stored)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunIdError(f"{path}: not readable ({error}); take another --out") from error


def write(out: Path, mark: RunId) -> None:
    files.write_text(out / FILE, json.dumps({"format": FORMAT, **asdict(mark)}, indent=1) + "\n")
