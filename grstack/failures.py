"""What failed in a run of the tests: read from the test runners' JUnit files, shown once more, together, at the end,
and then a line each: where a log is cut, its last lines are kept."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

SHOWN = 20  # failures
LINES = 25  # of each failure's text: its end names the line and the error
LINE = 160  # characters of a failure in the list


@dataclass(frozen=True)
class Failure:
    suite: str  # the JUnit file's stem
    test: str
    text: str


def read(folder: Path) -> Iterator[Failure]:
    """The failures of every JUnit file in `folder`."""
    for file in sorted(folder.glob("*.xml")):
        yield from of(file)


def of(file: Path) -> Iterator[Failure]:
    """The failures of one JUnit file; a file that cannot be read is a failure itself."""
    try:
        cases = list(ET.parse(file).iter("testcase"))
    except ET.ParseError as error:
        yield Failure(file.stem, "the whole suite", f"its results cannot be read, it was ended early: {error}")
        return
    for case in cases:
        for outcome in (*case.iterfind("failure"), *case.iterfind("error")):
            yield Failure(file.stem, f"{case.get('classname')}::{case.get('name')}", outcome.text or "")


def show(folder: Path, console: Console) -> None:
    failures = list(read(folder))
    for failure in failures[:SHOWN]:
        console.print(Text(f"\n{failure.suite}: {failure.test}", style="red"), soft_wrap=True)
        console.print(Text("\n".join(failure.text.rstrip().splitlines()[-LINES:])), soft_wrap=True)
    if len(failures) > SHOWN:
        console.print(f"and {len(failures) - SHOWN} more: {folder}")
    for failure in failures[:SHOWN]:
        line = f"{failure.suite}: {failure.test}: {_error(failure.text)}"
        console.print(Text(line[:LINE], style="red"), soft_wrap=True)


def _error(text: str) -> str:
    """The first of pytest's lines of the error (`E   ...`), or the last line."""
    lines = text.strip().splitlines() or [""]
    return next((line[1:].strip() for line in lines if line.startswith("E  ")), lines[-1])
