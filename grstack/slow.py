"""`inv test --slow`: the tests that are too long for every day, file by file, and what came of them as a result.

After each file the result is written, so that an interruption loses one file only: the same command goes on.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from grstack import changed, suites
from grstack.accept.results import read_tests
from grstack.choices import Choices
from grstack.commands import ROOT, session
from grstack.errors import UsageError
from grstack.evidence import measured, table
from grstack.evidence.measured import Measured
from grstack.evidence.state import MISSING, PRESENT, STALE, State
from grstack.execute import execute
from grstack.files import sha256_of, write_atomically
from grstack.keys import combine, files_under
from grstack.spec import SWEEPS

NAME = "slow-tests"
MARKER = "mark.slow"
MEMORY = re.compile(r"mark\.memory\(mib=(\d+)\)")


def with_slow_tests(root: Path) -> dict[str, str]:
    """The files that have a test marked slow -> the suite of each, in the order of `inv test`."""
    found = {}
    for suite in (*suites.IN_IMAGE, *suites.WITH_ENGINE):
        inner = [root / other for other in suites.IN_IMAGE if other.startswith(f"{suite}/")]
        for file in sorted((root / suite).rglob("test_*.py")):
            if not any(file.is_relative_to(folder) for folder in inner) and MARKER in file.read_text(encoding="utf-8"):
                found[file.relative_to(root).as_posix()] = suite
    return found


def memory_of(file: Path) -> int:
    """MiB that a test marked memory(mib=...) is to run in, the least of the file's; 0 where there is none."""
    return min((int(mib) for mib in MEMORY.findall(file.read_text(encoding="utf-8"))), default=0)


def chosen(only: str, known: dict[str, str]) -> list[str]:
    """The files that `only` names, which are files and suites by commas; all where it names none."""
    if not only:
        return list(known)
    names = only.split(",")
    for name in names:
        if name not in {*known, *known.values()}:
            options = list(dict.fromkeys([*known.values(), *known]))
            raise UsageError.unknown("suite or file with slow tests", name, options)
    return [file for file, suite in known.items() if file in names or suite in names]


def run(*, engine: str, only: str = "", again: bool = False) -> int:
    """Runs what has not passed yet on these sources, or all of it with `again`; returns 1 if anything failed."""
    console = Console(highlight=False)
    known = with_slow_tests(ROOT)
    files = chosen(only, known)
    keys, rows = keys_of(ROOT, known), read(ROOT)
    left = [file for file in files if again or not passed(rows.get(file), keys[file])]
    for file in files:
        if file not in left:
            console.print(f"{file}: passed on these sources before; --again runs it anew", soft_wrap=True)
    s = session(Choices(engine=engine, devel=True))
    if left:
        execute(s.plan, s.engine, s.paths, s.fetch, console)
        s.paths.data.mkdir(exist_ok=True)
        suites.stage_wheels(s)
        suites.stage_beside(s, SWEEPS)
    for number, file in enumerate(left, 1):
        took = f", {rows[file]['seconds']} s last time" if file in rows else ""
        console.print(Text(f"[{number}/{len(left)}] {file}{took}", style="bold"), soft_wrap=True)
        results = ROOT / "build" / suites.RESULTS / f"slow-{file.replace('/', '-')}.xml"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        reports = reports_of(ROOT, file)
        for name in reports:
            for old in results.parent.glob(f"{name}.*"):
                old.unlink()
        measured_keys = {name: measured.keys_of(ROOT, evidence.sources) for name, evidence in reports.items()}
        key, (commit, _) = keys_of(ROOT, {file: known[file]})[file], measured.commit_and_day(ROOT)
        begin = time.monotonic()
        if known[file] in suites.WITH_ENGINE:
            code = suites.on_host(console, [file], results, marker="slow")
        else:
            named = {variable: Path(path).name for e in reports.values() for variable, path in e.environment.items()}
            memory = memory_of(ROOT / file)
            code = suites.in_image(s, file, results=results.name, marker="slow", memory_mib=memory, reports=named)
        row = row_of(results, code, key, commit, round(time.monotonic() - begin))
        if keys_of(ROOT, {file: known[file]})[file] != key:
            console.print(f"the sources changed while {file} ran: its result is not kept", style="red", soft_wrap=True)
            continue
        write(ROOT, file, row)
        if passed(row, key):
            for name, found in measured_keys.items():
                keep(ROOT, results.parent, name, Measured(commit=commit, date=row["date"], sources=found))
        for name, text in row["failures"].items():
            console.print(Text(f"{name}\n{text}", style="red"), soft_wrap=True)
    rows, keys = read(ROOT), keys_of(ROOT, known)
    without = [file for file in files if skipped(rows.get(file), keys[file])]
    done = sum(passed(rows.get(file), keys[file]) for file in files)
    aside = f", every test skipped in {', '.join(without)}" if without else ""
    console.print(f"{done} of {len(files)} files passed{aside}: {table.RESULTS}/{NAME}.md", soft_wrap=True)
    return 0 if done + len(without) == len(files) else 1


def keys_of(root: Path, files: Mapping[str, str]) -> dict[str, str]:
    """For each file, of the suite given, the content key of itself and of all that can touch it."""
    of_suite = {suite: _of_suite(root, suite) for suite in set(files.values())}
    return {file: measured.combined(of_suite[suite] | measured.keys_of(root, [file])) for file, suite in files.items()}


def _of_suite(root: Path, suite: str) -> dict[str, str]:
    everything = suite in suites.WITH_ENGINE
    sources = table.load(root)[NAME].sources if everything else changed.sources_of(suite)
    helpers = [
        file
        for folder in changed.tests_of(suite)
        for file in files_under(root / folder, tests=True)
        if not file.name.startswith("test_")
    ]
    own = combine((file.relative_to(root).as_posix(), sha256_of(file)) for file in helpers)
    return {**measured.keys_of(root, sources), "what its tests call": own}


def reports_of(root: Path, file: str) -> dict[str, table.Evidence]:
    """The results that these tests write, where a variable names their file."""
    found = table.load(root)
    return {name: e for name, e in found.items() if e.environment and shlex.split(e.command)[-1] == file}


def keep(root: Path, folder: Path, name: str, how: Measured) -> None:
    """Takes the report that passing tests have left in `folder` for the committed result."""
    files = [file for file in folder.glob(f"{name}.*") if file.suffix in (".json", ".md")]
    for file in files:
        shutil.copyfile(file, root / table.RESULTS / file.name)
    if files:
        measured.add(root, name, how, table.files_of(root, name))


def state(root: Path, evidence: table.Evidence) -> State:
    """Of all rows: each has its own commit and key."""
    known, rows = with_slow_tests(root), read(root)
    if not rows:
        return State(NAME, MISSING, evidence, None)
    now = keys_of(root, known)
    old = [file for file in known if not passed(rows.get(file), now[file])]
    said = (f"{len(old)} of {len(known)} files have not passed on these sources",) if old else ()
    return State(NAME, STALE if old else PRESENT, evidence, None, said)


def passed(row: dict[str, Any] | None, key: str) -> bool:
    """One test at least, and none failed."""
    return row is not None and row["key"] == key and not row["failed"] and row["passed"] > 0


def skipped(row: dict[str, Any] | None, key: str) -> bool:
    """All of them, for what this machine lacks: no failure, and nothing that was shown."""
    return row is not None and row["key"] == key and not row["failed"] and not row["passed"] and row["skipped"] > 0


def row_of(results: Path, code: int, key: str, commit: str, seconds: int) -> dict[str, Any]:
    """`code`: of the tests' process, which may end badly after the last of them has passed."""
    counts, failures = read_tests(results)
    if code and not counts["failed"]:
        counts, failures = {**counts, "failed": 1}, {"the whole suite": f"its process ended with exit code {code}"}
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


def write(root: Path, file: str, row: dict[str, Any]) -> None:
    """Puts `row` in place of the file's earlier one; rows of files without slow tests go.

    Of its failures the names: what pytest says of them holds paths of this machine.
    """
    known = with_slow_tests(root)
    named = {**row, "failures": sorted(row["failures"])}
    rows = {name: found for name, found in sorted({**read(root), file: named}.items()) if name in known}
    folder = root / table.RESULTS
    write_atomically(folder / f"{NAME}.json", json.dumps(rows, indent=1) + "\n")
    write_atomically(folder / f"{NAME}.md", as_page(rows, sorted(known.keys() - rows.keys())))


def as_page(rows: dict[str, dict[str, Any]], missing: Sequence[str] = ()) -> str:
    """missing: the files with slow tests of which there is no result."""
    lines = [
        "# The slow tests",
        "",
        "`inv test --slow`: what is marked slow and is not in the gate. A test is skipped where the machine lacks what",
        "it needs (a GPU, a program). A row speaks of its commit's sources. The seconds measure nothing: other work",
        "may have run beside the tests.",
        "",
        "| file | passed | failed | skipped | seconds | commit | date |",
        "|---|---|---|---|---|---|---|",
    ]
    names: Sequence[str] = ("passed", "failed", "skipped", "seconds", "commit", "date")
    lines += [f"| `{file}` | " + " | ".join(str(row[name]) for name in names) + " |" for file, row in rows.items()]
    failed = {test for row in rows.values() for test in row["failures"]}
    if failed:
        lines += ["", "Failed:", "", *(f"- `{test}`" for test in sorted(failed))]
    if missing:
        lines += ["", "Without a result, so far:", "", *(f"- `{file}`" for file in missing)]
    return "\n".join(lines) + "\n"
