"""`inv test --slow`: the tests that are too long for every day, suite by suite, and what came of them as a result.

After each suite the result is written, so that an interruption loses one suite only: the same command goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from grstack import suites
from grstack.accept.results import read_tests
from grstack.choices import Choices
from grstack.commands import ROOT, session
from grstack.errors import UsageError
from grstack.evidence import measured, table
from grstack.evidence.measured import Measured
from grstack.execute import execute
from grstack.files import write_atomically

NAME = "slow-tests"
MARKER = "mark.slow"


def with_slow_tests(root: Path) -> list[str]:
    """The suites that have a test marked slow, in the order of `inv test`."""
    found = []
    for suite in (*suites.IN_IMAGE, *suites.WITH_ENGINE):
        inner = [root / other for other in suites.IN_IMAGE if other.startswith(f"{suite}/")]
        files = [
            file
            for file in sorted((root / suite).rglob("*.py"))
            if not any(file.is_relative_to(folder) for folder in inner)
        ]
        if any(MARKER in file.read_text(encoding="utf-8") for file in files):
            found.append(suite)
    return found


def run(*, engine: str, only: str = "", again: bool = False) -> int:
    """Runs what has not passed yet on these sources, or all of it with `again`; returns 1 if anything failed."""
    console = Console(highlight=False)
    known = with_slow_tests(ROOT)
    chosen = only.split(",") if only else known
    for suite in chosen:
        if suite not in known:
            raise UsageError.unknown("suite with slow tests", suite, known)
    key, rows = key_of(ROOT), read(ROOT)
    left = [suite for suite in chosen if again or not passed(rows.get(suite), key)]
    for suite in chosen:
        if suite not in left:
            console.print(f"{suite}: passed on these sources before; --again runs it anew", soft_wrap=True)
    s = session(Choices(engine=engine, devel=True))
    if left:
        execute(s.plan, s.engine, s.paths, s.fetch, console)
        s.paths.data.mkdir(exist_ok=True)
        suites.stage_wheels(s)
    for number, suite in enumerate(left, 1):
        took = f", {rows[suite]['seconds']} s last time" if suite in rows else ""
        console.print(Text(f"[{number}/{len(left)}] {suite}{took}", style="bold"), soft_wrap=True)
        results = ROOT / "build" / suites.RESULTS / f"slow-{suite.replace('/', '-')}.xml"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        begin = time.monotonic()
        if suite in suites.WITH_ENGINE:
            suites.on_host(console, [suite], results, marker="slow")
        else:
            suites.in_image(s, suite, results=results.name, marker="slow")
        row = row_of(results, key, round(time.monotonic() - begin))
        write(ROOT, suite, row)
        for name, text in row["failures"].items():
            console.print(Text(f"{name}\n{text}", style="red"), soft_wrap=True)
    rows = read(ROOT)
    if left and all(suite in rows and rows[suite]["key"] == key for suite in known):
        commit, _ = measured.commit_and_day(ROOT)
        sources = measured.keys_of(ROOT, table.load(ROOT)[NAME].sources)
        measured.add(ROOT, NAME, Measured(commit=commit, date=date.today().isoformat(), sources=sources))
    failed = [suite for suite in chosen if not passed(rows.get(suite), key)]
    console.print(f"{len(chosen) - len(failed)} of {len(chosen)} suites passed: {table.RESULTS}/{NAME}.md")
    return 1 if failed else 0


def key_of(root: Path) -> str:
    """The content key of all sources that a test can touch."""
    sources = table.load(root)[NAME].sources
    return measured.combined(measured.keys_of(root, sources))


def passed(row: dict[str, Any] | None, key: str) -> bool:
    """Tests that all were skipped say why; a suite without any did not run."""
    return row is not None and row["key"] == key and not row["failed"] and row["passed"] + row["skipped"] > 0


def row_of(results: Path, key: str, seconds: int) -> dict[str, Any]:
    counts, failures = read_tests(results)
    commit, _ = measured.commit_and_day(ROOT)
    return {
        "key": key,
        "commit": commit,
        "date": date.today().isoformat(),
        **counts,
        "seconds": seconds,
        "failures": failures,
    }


def read(root: Path) -> dict[str, dict[str, Any]]:
    file = root / table.RESULTS / f"{NAME}.json"
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def write(root: Path, suite: str, row: dict[str, Any]) -> None:
    rows = dict(sorted({**read(root), suite: row}.items()))
    folder = root / table.RESULTS
    write_atomically(folder / f"{NAME}.json", json.dumps(rows, indent=1) + "\n")
    write_atomically(folder / f"{NAME}.md", as_page(rows))


def as_page(rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# The slow tests",
        "",
        "`inv test --slow`: what is marked slow and is not in the gate. A test is skipped where the machine lacks what",
        "it needs (a GPU, a program).",
        "",
        "| suite | passed | failed | skipped | seconds | commit | date |",
        "|---|---|---|---|---|---|---|",
    ]
    names: Sequence[str] = ("passed", "failed", "skipped", "seconds", "commit", "date")
    lines += [f"| `{suite}` | " + " | ".join(str(row[name]) for name in names) + " |" for suite, row in rows.items()]
    failed = {test: text for row in rows.values() for test, text in row["failures"].items()}
    if failed:
        lines += ["", "Failed:", "", *(f"- `{test}`" for test in sorted(failed))]
    return "\n".join(lines) + "\n"
