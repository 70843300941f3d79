"""The rows of a run on disk, one line as each case ends, so that a run that was cut off can go on."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from .tally import Row, from_json, to_json


class Store:
    """`folder/name`; its first line is the fingerprint. Rows of another fingerprint are moved aside, not mixed."""

    def __init__(self, folder: Path | None, name: str, fingerprint: dict[str, str]) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ascend-twin-") if folder is None else None
        folder = Path(self._temporary.name) if self._temporary else Path(str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.log = folder / name, folder / "children.log"
        self.fingerprint = fingerprint
        self.rows: list[Row] = []
        self.functions: set[str] = set()  # aclnn functions that were called
        self.seconds = 0.0
        self._load()
        self._written = set(self.functions)

    def _load(self) -> None:
        if self.path.is_file():
            first, *lines = self.path.read_text().splitlines()
            if json.loads(first) == self.fingerprint:
                for line in lines:
                    try:
                        entry = json.loads(line)
                    except json.JSONDecodeError:  # cut off while it was written
                        break
                    self.seconds = entry["seconds"]
                    self.functions.update(entry["functions"])
                    self.rows.append(from_json(entry["row"]))
            else:
                self.path.replace(self.path.with_suffix(".old.jsonl"))
        known = sorted(self.functions)
        text = [json.dumps(self.fingerprint), *(self._line(row, self.seconds, known) for row in self.rows)]
        self.path.write_text("\n".join(text) + "\n")

    @staticmethod
    def _line(row: Row, seconds: float, functions: list[str]) -> str:
        return json.dumps({"seconds": round(seconds, 1), "functions": functions, "row": to_json(row)})

    def add(self, row: Row, seconds: float) -> None:
        self.rows.append(row)
        self.seconds = seconds
        with self.path.open("a") as file:
            file.write(self._line(row, seconds, sorted(self.functions - self._written)) + "\n")
        self._written |= self.functions
