"""What came out of each case, in memory and as CSV."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .outcome import Outcome
from .reasons import CAUSES, ROUNDING, TWIN, explain

CHECKS = ("forward", "backward", "strided", "in place", "out")


@dataclass
class Row:
    """One operator at one data type. `samples`: those that the CPU passes in at least one check."""

    op: str
    dtype: str
    samples: int = 0
    passed: int = 0
    shapes_only: int = 0
    refused_by_cpu: int = 0
    tested: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    checks: dict[str, str] = field(default_factory=dict)  # of each error, the first that failed by it
    causes: Counter[str] = field(default_factory=Counter)  # failing samples by whose cause it is
    no_samples: str = ""

    def add(self, outcome: Outcome) -> None:
        if not outcome.tested:
            self.refused_by_cpu += 1
            return
        self.samples += 1
        self.passed += not outcome.failed
        self.shapes_only += outcome.shapes_only and not outcome.failed
        self.tested.update(outcome.tested)
        if outcome.failed:
            self.causes[self._cause(outcome)] += 1
        for check, error in outcome.failed:
            self.failed[check] += 1
            if error in self.errors or len(self.errors) < 4:
                self.errors[error] += 1
                self.checks.setdefault(error, check)

    def _cause(self, outcome: Outcome) -> str:
        """The twin's, where one of its checks fails by the twin; rounding, where none fails by anything else."""
        causes = [explain(self.op, self.dtype, error, check)[0] for check, error in outcome.failed]
        return min(causes, key=lambda cause: (cause != TWIN, cause == ROUNDING))

    def error(self) -> str:
        """The commonest error, or nothing."""
        return min(self.errors, key=lambda text: (-self.errors[text], text), default="")

    def check(self) -> str:
        """The one that the commonest error is of, or nothing."""
        return self.checks.get(self.error(), "")


def to_json(row: Row) -> str:
    return json.dumps(vars(row), sort_keys=True)


def from_json(line: str) -> Row:
    values: dict[str, Any] = json.loads(line)
    counters = {name: Counter(values[name]) for name in ("tested", "failed", "errors", "causes")}
    return Row(**{**values, **counters})


_PLAIN = [f.name for f in fields(Row) if f.name not in ("tested", "failed", "errors", "checks", "causes")]


def write_csv(rows: Iterable[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        checks = [f"{check} {what}" for check in CHECKS for what in ("tested", "failed")]
        writer.writerow([*_PLAIN, *checks, *(f"by {cause}" for cause in CAUSES), "commonest error", "of"])
        for row in sorted(rows, key=lambda row: (row.op, row.dtype)):
            counts = [counter[check] for check in CHECKS for counter in (row.tested, row.failed)]
            causes = [row.causes[cause] for cause in CAUSES]
            writer.writerow([*(getattr(row, name) for name in _PLAIN), *counts, *causes, row.error(), row.check()])


def read_csv(path: Path) -> list[Row]:
    rows = []
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            row = Row(line["op"], line["dtype"], no_samples=line["no_samples"])
            for name in ("samples", "passed", "shapes_only", "refused_by_cpu"):
                setattr(row, name, int(line[name]))
            for check in CHECKS:
                row.tested[check] = int(line[f"{check} tested"])
                row.failed[check] = int(line[f"{check} failed"])
            row.causes.update({cause: int(line[f"by {cause}"]) for cause in CAUSES if int(line[f"by {cause}"])})
            if line["commonest error"]:
                row.errors[line["commonest error"]] = row.samples - row.passed
                row.checks[line["commonest error"]] = line["of"]
            rows.append(row)
    return rows
