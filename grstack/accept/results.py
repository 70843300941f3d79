"""What came of a run of the parts: one JSON file, written after each part, from which the report is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from grstack import failures
from grstack.accept.parts import NEVER
from grstack.files import write_atomically

PASSED, FAILED, LATE, LEFT = "passed", "failed", "took too long", "not run"


@dataclass(kw_only=True)
class Result:
    part: str
    claim: str
    state: str
    rehearsed: bool  # the shorter program ran
    seconds: float = 0.0
    tests: dict[str, int] = field(default_factory=dict)  # passed, failed, skipped; empty for other programs
    failures: dict[str, str] = field(default_factory=dict)  # the end of each failure's text, by test
    figures: Any = None
    log: str = ""  # below the report's folder
    on_hardware_before: str = NEVER  # or where it had passed, when this was run


@dataclass(kw_only=True)
class Acceptance:
    platform: str
    emulated: bool
    image: str
    began: str  # UTC
    results: list[Result] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(result.state == PASSED for result in self.results)

    def of(self, part: str) -> Result | None:
        return next((result for result in self.results if result.part == part), None)

    def take(self, result: Result, order: Sequence[str]) -> None:
        """Puts `result` in place of the part's earlier one, in the order of the parts."""
        kept = [other for other in self.results if other.part != result.part]
        self.results = sorted([*kept, result], key=lambda each: order.index(each.part))

    def write(self, file: Path) -> None:
        write_atomically(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Acceptance | None:
        """None where there is no whole file."""
        try:
            content = json.loads(file.read_text())
            return cls(**{**content, "results": [Result(**result) for result in content["results"]]})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def read_tests(file: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Counts of a JUnit file, and its failures; a missing or broken file is a failure."""
    try:
        suites = list(ElementTree.parse(file).iter("testsuite"))
    except (OSError, ElementTree.ParseError) as error:
        return {"passed": 0, "failed": 1, "skipped": 0}, {"the whole suite": f"its results cannot be read: {error}"}
    sums = {name: sum(int(s.get(name, 0)) for s in suites) for name in ("tests", "failures", "errors", "skipped")}
    failed = sums["failures"] + sums["errors"]
    counts = {"passed": sums["tests"] - failed - sums["skipped"], "failed": failed, "skipped": sums["skipped"]}
    texts = {found.test: "\n".join(found.text.rstrip().splitlines()[-failures.LINES :]) for found in failures.of(file)}
    return counts, texts
