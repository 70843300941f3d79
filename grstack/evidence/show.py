"""The state of results, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from grstack.evidence.state import EDITED, MISSING, PART, PRESENT, STALE, UNKNOWN, State

_STYLES = {PRESENT: "green", STALE: "yellow", PART: "yellow", UNKNOWN: "yellow", EDITED: "red", MISSING: "red"}


def as_table(states: Sequence[State]) -> Table:
    table = Table(title="inv evidence", title_justify="left")
    for column in ("result", "state", "measured on", "changed since", "renewed"):
        table.add_column(column, overflow="fold")
    for state in states:
        when = f"{state.measured.commit} {state.measured.date}" if state.measured else ""
        by = "" if state.word == PRESENT else state.place
        cells = (state.name, state.word, when, "\n".join(state.changed), by)
        table.add_row(*(Text(cell, style=_STYLES[state.word] if at == 1 else "") for at, cell in enumerate(cells)))
    return table


def as_document(states: Sequence[State]) -> dict[str, Any]:
    return {
        state.name: {
            "state": state.word,
            "measured": vars(state.measured) if state.measured else None,
            "changed": list(state.changed),
            "where": state.evidence.where,
            "command": state.evidence.command,
        }
        for state in states
    }


def summary(states: Sequence[State]) -> str:
    stale = [state for state in states if state.word != PRESENT]
    here = sum(state.renewable for state in stale)
    if not stale:
        return "every result speaks of the present sources"
    return f"{len(stale)} of {len(states)} do not speak of the present sources; {here} of them can be renewed here"
