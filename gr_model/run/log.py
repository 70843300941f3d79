"""log.jsonl of a run: one JSON object a line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from gr_model.common import files
from gr_model.common.errors import GrModelError

Event = dict[str, Any]


class LogError(GrModelError, RuntimeError):
    """A log with a line that is no record."""


def read(path: Path) -> list[Event]:
    """The whole records; a kill may have cut off the last line, which then has no newline. LogError for others."""
    return [_record(path, number, line) for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1)]


def _record(path: Path, number: int, line: bytes) -> Event:
    try:
        record = json.loads(line.decode("utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise LogError(_damaged(path, number, str(error))) from None
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise LogError(_damaged(path, number, "not an object with an event"))
    return record


def _damaged(path: Path, number: int, why: str) -> str:
    return (
        f"{path}:{number}: the line is damaged: {why}\n"
        f"  next: sed -i.damaged {number}d {shlex.quote(str(path))} removes it and keeps a copy; then the same command"
    )


class Log:
    """A record is written at once, with the id of the run. Without a path it is only kept.

    A run that continues from a checkpoint takes its steps after `resumed_at` again, so what a former attempt logged
    about them goes: each step stands once. Records of other runs go too; those without an id are of older versions.
    """

    def __init__(self, path: Path | None, run: str, resumed_at: int | None = None) -> None:
        self.run = run
        former = read(path) if path and resumed_at is not None and path.exists() else []
        own = (event for event in former if event.get("run", run) == run)
        self.events: list[Event] = [event for event in own if event["step"] <= (resumed_at or 0)]
        self._file = None
        if path:
            files.write_text(path, "".join(json.dumps(event) + "\n" for event in self.events))
            self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: str, **fields: Any) -> Event:
        record = {"event": event, "run": self.run, **fields}
        if self._file:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        self.events.append(record)
        return record
