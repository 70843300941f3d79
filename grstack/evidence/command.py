"""`inv evidence`: lists the state of the committed results, renews them, and records those measured elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from grstack.errors import UsageError
from grstack.evidence import measured, show, table
from grstack.evidence.measured import Measured
from grstack.evidence.state import PRESENT, State, all_states

STALE = "stale"  # in place of names: all that are, and that this machine can measure


def states(root: Path) -> list[State]:
    from grstack import slow  # which needs all of grstack, and this package

    found = all_states(root, table.load(root), measured.read(root))
    return [slow.state(root, state.evidence) if state.name == slow.NAME else state for state in found]


def listed(root: Path, console: Console, *, as_json: bool) -> int:
    """1 where a result does not speak of the present sources."""
    found = states(root)
    if as_json:
        print(json.dumps(show.as_document(found), indent=1))
    else:
        console.print(show.as_table(found))
        console.print(show.summary(found), soft_wrap=True)
        if any(state.renewable for state in found):
            console.print(f"next: inv evidence --renew {STALE}", soft_wrap=True)
    return 0 if all(state.word == PRESENT for state in found) else 1


def chosen(root: Path, names: str) -> list[State]:
    """Of a list by commas, or all that are stale and can be renewed here."""
    found = {state.name: state for state in states(root)}
    if names == STALE:
        return [state for state in found.values() if state.renewable]
    for name in names.split(","):
        if name not in found:
            raise UsageError.unknown("result", name, found, next_command="inv evidence")
    return [found[name] for name in names.split(",")]


def record(root: Path, names: Sequence[str], commit: str) -> list[str]:
    """Says that these results were measured on the sources of `commit`; returns a line for each."""
    if not commit:
        raise UsageError(
            "--record wants the commit whose sources were measured",
            next_command="inv evidence --record NAME --commit COMMIT",
        )
    from grstack import slow

    known = table.load(root)
    for name in names:
        if name not in known:
            raise UsageError.unknown("result", name, known, next_command="inv evidence")
        if name == slow.NAME:
            raise UsageError(f"{name}: each of its rows has a commit of its own", next_command="inv test --slow")
    short, day = measured.commit_and_day(root, commit)
    if same := [
        name for name in names if measured.is_older(root, table.files_of(root, name, known[name].folder), commit)
    ]:
        raise UsageError(
            f"{', '.join(same)}: the result is the one of a commit before {short}, so it was not measured there",
            next_command=f"bring its files ({known[same[0]].folder}/{same[0]}.*), then inv evidence --record {same[0]}",
        )
    said = []
    with measured.tree_of(root, commit) as tree:
        for name in names:
            found = measured.keys_of(tree, known[name].sources)
            files = table.files_of(root, name, known[name].folder)
            measured.add(root, name, Measured(commit=short, date=day, sources=found), files)
            said.append(f"{name}: measured on {short} of {day}")
    return said
