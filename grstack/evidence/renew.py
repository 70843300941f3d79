"""Runs the commands that renew results, one after the other, and records what they measured."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rich.text import Text

from grstack.engines import Mount
from grstack.errors import StepError, UsageError
from grstack.evidence import measured
from grstack.evidence.measured import Measured
from grstack.evidence.state import State
from grstack.evidence.table import HOST, TABLE, Evidence, files_of
from grstack.files import write_atomically
from grstack.run import Runner
from grstack.session import Session


def check(states: Sequence[State]) -> None:
    """Raises if one of them cannot be measured on this machine."""
    for state in states:
        if not state.evidence.runs_here:
            raise UsageError(
                f"{state.name} needs {state.evidence.where}: run `{state.evidence.command}` there, bring its files",
                next_command=f"inv evidence --record {state.name} --commit THE-COMMIT-THAT-WAS-MEASURED",
            )


def renew(s: Session, states: Sequence[State]) -> list[str]:
    """The names of those whose command failed. What is done is recorded at once: an interruption keeps it."""
    failed = []
    for number, state in enumerate(states, 1):
        took = f", {state.measured.seconds} s last time" if state.measured and state.measured.seconds else ""
        title = f"[{number}/{len(states)}] {state.name}: {state.evidence.command}{took}"
        s.console.print(Text(title, style="bold"), soft_wrap=True)
        if code := _one(s, state):
            s.console.print(f"[red]{state.name} ended with exit code {code}[/red]; its result is not recorded")
            failed.append(state.name)
    return failed


def _one(s: Session, state: State) -> int:
    from grstack import slow  # which needs all of grstack, and this package

    root, evidence = s.paths.root, state.evidence
    before, written = measured.keys_of(root, evidence.sources), _times(root, state)
    if kept := _set_aside(root, state, before):
        s.console.print(f"rows of other sources are now in {kept}", soft_wrap=True)
    begin = time.monotonic()
    if code := _run(s, evidence):
        return code
    if state.name == slow.NAME:  # each of its rows has a commit and a key of its own
        return 0
    seconds = round(time.monotonic() - begin)
    if measured.keys_of(root, evidence.sources) != before:
        raise StepError(
            f"the sources of {state.name} changed while it was measured",
            next_command=f"inv evidence --renew {state.name}",
        )
    if _times(root, state) == written:
        raise StepError(
            f"the command of {state.name} wrote none of its results",
            where=evidence.command,
            next_command=f"${{EDITOR:-vi}} {TABLE}",
        )
    commit, _ = measured.commit_and_day(root)
    found = Measured(commit=commit, date=date.today().isoformat(), sources=before, seconds=seconds)
    measured.add(root, state.name, found, files_of(root, state.name, evidence.folder))
    return 0


def _set_aside(root: Path, state: State, keys: dict[str, str]) -> Path | None:
    """A run that was cut off goes on by what lies in its --output below build, if that is of the same sources: the
    program itself does not look at all that its figures depend on. Other rows, which may be somebody's own, are moved
    beside it; returns where to."""
    words = shlex.split(state.evidence.command)
    folder = Path(words[words.index("--output") + 1]) if "--output" in words else Path()
    if folder.parts[:1] != ("build",) or len(folder.parts) == 1:
        return None
    note = root / "build/evidence" / f"{state.name}.json"
    same = note.exists() and json.loads(note.read_text(encoding="utf-8")) == keys
    kept = None
    if not same and (root / folder).exists():
        names = (folder.with_name(f"{folder.name}-before-{number}") for number in itertools.count(1))
        kept = next(name for name in names if not (root / name).exists())
        (root / folder).rename(root / kept)
    write_atomically(note, json.dumps(keys))
    return kept


def _times(root: Path, state: State) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in files_of(root, state.name, state.evidence.folder)}


def _run(s: Session, evidence: Evidence) -> int:
    argv = shlex.split(evidence.command)
    commit, _ = measured.commit_and_day(s.paths.root)
    if evidence.where == HOST:
        env = {"PYTHONPATH": str(s.paths.root), **evidence.environment}
        return Runner(s.console).replace([sys.executable, *argv[1:]], env=env, cwd=s.paths.root)
    source = Mount(source=s.paths.root, name="source", writable=True)
    data = Mount(source=s.paths.data, name="data")
    place = s.engine.path_of(source)
    env = {
        "PYTHONPATH": place,
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRSTACK_DATA": s.engine.path_of(data),
        "GRSTACK_COMMIT": commit,
        **{name: f"{place}/{value}" for name, value in evidence.environment.items()},
    }
    there = ["bash", "-c", f"cd {shlex.quote(place)} && exec {shlex.join(argv)}"]
    return s.engine.run(s.plan, there, mounts=[source, data], env=env)
