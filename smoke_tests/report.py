"""The results for people (table, HTML page) and for machines (JSON)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gr_model.report import pages
from smoke_tests.runner import Result


def platform_line(manifest: dict[str, Any]) -> str:
    kind = "emulated NPU" if manifest.get("emulated") else manifest["platform"]
    return f"target {manifest['target']}, {kind}, Python {manifest['python']}, {manifest['arch']}"


def text_table(results: Sequence[Result]) -> str:
    width = max(len(result.check) for result in results)
    lines = []
    for result in results:
        lines.append(f"{word(result)}  {result.check:<{width}}  {result.seconds:7.1f} s  {result.outcome.summary}")
        if word(result) == "FAIL":
            lines += [f"      {' ' * width}    {detail}" for detail in result.outcome.details]
    return "\n".join(lines)


def word(result: Result) -> str:
    return "skip" if result.skipped else "pass" if result.passed else "FAIL"


def json_report(results: Sequence[Result], manifest: dict[str, Any], seconds: float) -> dict[str, Any]:
    """`seconds`: from the first check's begin to the last one's end; some may have run side by side."""
    return {
        "passed": all(result.passed or result.skipped for result in results),
        "emulated": bool(manifest.get("emulated")),
        "image": {key: manifest[key] for key in ("target", "platform", "python", "arch", "key") if key in manifest},
        "seconds": round(seconds, 1),
        "checks": [result.to_json() for result in results],
    }


def html_report(results: Sequence[Result], manifest: dict[str, Any]) -> str:
    lead = html.escape(platform_line(manifest)) + ". "
    if manifest.get("emulated"):
        lead += '<span class="badge twin">emulated: results are checked here, speed says nothing about hardware</span>'
    rows = [
        [
            _badge(result),
            f"<b>{html.escape(result.check)}</b>",
            f"{html.escape(result.claim)}<br><small>{html.escape(result.outcome.summary)}</small>",
            f"{result.seconds:.1f} s",
        ]
        for result in results
    ]
    body = pages.table(["", "check", "what must hold, and what was found", "time"], rows, numeric_from=3)
    charts = [_chart(chart) for result in results for chart in result.outcome.charts]
    if charts:
        body += f'<h2>Curves</h2><div class="cards">{"".join(charts)}</div>'
    figures = [
        [html.escape(result.check), html.escape(name), f"{value:.6g}"]
        for result in results
        for name, value in result.outcome.figures.items()
    ]
    if figures:
        body += "<h2>Figures</h2>" + pages.table(["check", "figure", "value"], figures, numeric_from=2)
    for result in results:
        if result.outcome.details:
            opened = "" if result.passed or result.skipped else " open"
            lines = html.escape("\n".join(result.outcome.details))
            body += f"<details{opened}><summary>{html.escape(result.check)}: details</summary>"
            body += f"<pre>{lines}</pre></details>"
    return pages.page(f"Smoke test: {count(results)}", lead, body)


def count(results: Sequence[Result]) -> str:
    """`7 of 8 checks passed, 1 skipped`."""
    skipped = sum(result.skipped for result in results)
    passed = sum(result.passed for result in results)
    return f"{passed} of {len(results)} checks passed{f', {skipped} skipped' if skipped else ''}"


def _badge(result: Result) -> str:
    if result.skipped:
        return '<span class="badge">skipped</span>'
    return '<span class="badge ok">pass</span>' if result.passed else '<span class="badge no">fail</span>'


def _chart(chart: Any) -> str:
    """Charts come back from JSON as plain dicts."""
    curves = [pages.Series(c["name"], [tuple(p) for p in c["points"]], c["dashed"]) for c in chart["curves"]]
    return pages.chart(chart["title"], curves, chart["caption"])
