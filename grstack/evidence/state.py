"""Whether a result speaks of the present sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grstack.evidence.measured import Measured, keys_of
from grstack.evidence.table import Evidence, files_of

PRESENT, STALE, UNKNOWN, MISSING = "present", "stale", "no key", "no result"


@dataclass(frozen=True)
class State:
    """changed: the sources that are others than those that were measured; of tests file by file, how many are."""

    name: str
    word: str
    evidence: Evidence
    measured: Measured | None
    changed: tuple[str, ...] = ()


def state_of(root: Path, name: str, evidence: Evidence, measured: Measured | None) -> State:
    if not files_of(root, name, evidence.folder):
        return State(name, MISSING, evidence, None)
    if measured is None:
        return State(name, UNKNOWN, evidence, None)
    now = keys_of(root, evidence.sources)
    changed = tuple(source for source, key in now.items() if measured.sources.get(source) != key)
    return State(name, STALE if changed else PRESENT, evidence, measured, changed)


def all_states(root: Path, table: Mapping[str, Evidence], measured: Mapping[str, Measured]) -> list[State]:
    return [state_of(root, name, evidence, measured.get(name)) for name, evidence in table.items()]
