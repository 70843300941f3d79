"""log.jsonl of a run: one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gr_model.common import files

Event = dict[str, Any]


def read(path: Path) -> list[Event]:
    """The whole records; a kill may have cut off the last line, which then has no newline."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


class Log:
    """A record is written before the next step begins, with the id of the run. Without a path it is only kept.

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
