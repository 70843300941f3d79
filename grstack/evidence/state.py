"""Whether a result speaks of the present sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grstack.errors import UsageError
from grstack.evidence.measured import Measured, digests_of, keys_of, tree_of
from grstack.evidence.table import Evidence, files_of

PRESENT, STALE, UNKNOWN, MISSING = "present", "stale", "no key", "no result"
EDITED = "edited"  # a file of the result is not as it was written, whatever its sources are
PART = "in part"  # some rows are of an earlier commit, which they name: of devices that were not there again


@dataclass(frozen=True)
class State:
    """changed: the sources that are others than those that were measured, and the files of the result that are not as
    they were written; of tests file by file, how many are."""

    name: str
    word: str
    evidence: Evidence
    measured: Measured | None
    changed: tuple[str, ...] = ()

    @property
    def renewable(self) -> bool:
        """By this machine, so that it speaks of the present sources: not what it has left to another one."""
        return self.word not in (PRESENT, PART) and self.evidence.runs_here

    @property
    def place(self) -> str:
        if self.evidence.runs_here:
            return "elsewhere" if self.word == PART else "here"
        return f"on {self.evidence.where}"


def state_of(root: Path, name: str, evidence: Evidence, measured: Measured | None) -> State:
    files = files_of(root, name, evidence.folder)
    if not files:
        return State(name, MISSING, evidence, None)
    if measured is None:
        return State(name, UNKNOWN, evidence, None)
    now = keys_of(root, evidence.sources)
    changed = tuple(source for source, key in now.items() if measured.sources.get(source) != key)
    digests = digests_of(files)
    edited = [
        file for file in sorted(digests.keys() | measured.results) if digests.get(file) != measured.results.get(file)
    ]
    if edited:
        return State(name, EDITED, evidence, measured, (*edited, *changed))
    if not changed and (older := tuple(_older_parts(root, name, evidence, measured, now))):
        return State(name, PART, evidence, measured, older)
    return State(name, STALE if changed else PRESENT, evidence, measured, changed)


def _older_parts(root: Path, name: str, evidence: Evidence, measured: Measured, now: dict[str, str]) -> Iterator[str]:
    """The rows' own commits whose sources are others than those of now."""
    documents = [file for file in files_of(root, name, evidence.folder) if file.suffix == ".json"]
    named = {commit for file in documents for commit in commits(json.loads(file.read_text(encoding="utf-8")))}
    for commit in sorted(named):
        if commit.startswith(measured.commit) or measured.commit.startswith(commit):
            continue
        try:
            with tree_of(root, commit) as tree:
                same = keys_of(tree, evidence.sources) == now
        except UsageError:
            same = False  # git does not know it
        if not same:
            yield f"rows of {commit}"


def commits(document: Any) -> Iterator[str]:
    """The values named `commit`, wherever they stand."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from [value] if name == "commit" and isinstance(value, str) else commits(value)
    elif isinstance(document, list):
        for value in document:
            yield from commits(value)


def all_states(root: Path, table: Mapping[str, Evidence], measured: Mapping[str, Measured]) -> list[State]:
    return [state_of(root, name, evidence, measured.get(name)) for name, evidence in table.items()]
