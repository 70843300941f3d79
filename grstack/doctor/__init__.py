"""`inv doctor`: what this machine has and lacks, with a remedy for each lack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from grstack.doctor.checks import CHECKS, Check
from grstack.doctor.examine import LIMIT, examine
from grstack.doctor.facts import Facts, HostFacts
from grstack.doctor.finding import Finding, Severity
from grstack.doctor.show import as_document, as_table
from grstack.run import Runner

__all__ = ["CHECKS", "Facts", "Finding", "Severity", "examine", "run_doctor"]


def run_doctor(
    root: Path,
    *,
    as_json: bool = False,
    console: Console | None = None,
    facts: Facts | None = None,
    checks: Mapping[str, Check] = CHECKS,
    limit: float = LIMIT,
) -> int:
    """Runs all checks at once, prints a table or JSON, and returns the exit code: 1 if there is an error, else 0."""
    out = console or Console()
    machine = facts or HostFacts(root, Runner(Console(stderr=True)))
    findings = examine(machine, checks, limit)
    if as_json:
        # not through rich, which would wrap and colour it
        print(json.dumps(as_document(findings), indent=2), file=out.file)
    else:
        out.print(as_table(findings))
    return int(any(finding.severity is Severity.ERROR for finding in findings))
