"""Findings as a table for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from grstack.doctor.finding import Finding, Severity

_STYLES = {Severity.OK: "green", Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def as_table(findings: Sequence[Finding]) -> Table:
    folded = (Column(name, overflow="fold") for name in ("finding", "remedy"))  # a command is shown whole
    table = Table("check", "", *folded, title="inv doctor", title_justify="left")
    for finding in findings:
        style = _STYLES[finding.severity]
        # Text, not str: messages hold brackets, which rich would read as markup
        cells = (finding.check, finding.severity.value, finding.message, finding.remedy)
        table.add_row(*(Text(cell, style=style if column == 1 else "") for column, cell in enumerate(cells)))
    return table


def as_document(findings: Sequence[Finding]) -> dict[str, Any]:
    counts = {severity.value: sum(f.severity is severity for f in findings) for severity in Severity}
    rows = [
        {"check": f.check, "severity": f.severity.value, "message": f.message, "remedy": f.remedy} for f in findings
    ]
    return {"findings": rows, "counts": counts, "healthy": not counts["error"]}
