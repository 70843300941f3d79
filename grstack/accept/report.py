"""The report for people, one HTML file without anything from outside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from grstack.accept.results import LEFT, PASSED, Acceptance, Result
from grstack.files import write_atomically

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2a7d4f; --bad: #b3352b; --quiet: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
border-bottom: 1px solid var(--line); } td.number { text-align: right; font-variant-numeric: tabular-nums; }
.passed { color: var(--good); font-weight: 600; } .failed { color: var(--bad); font-weight: 600; }
.left { color: var(--quiet); } pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); font-size: 12px; }
.note { border-left: .25rem solid #c80; padding: .3rem .8rem; }
"""
REHEARSAL = (
    "A rehearsal on emulated devices: results are checked here, in a part of each suite; times say nothing of hardware."
)
HARDWARE = (
    "The operators and everything above them were written and tested on emulated devices only. What stands here is how "
    "they do on these, which no one of us had."
)


def write(run: Acceptance, file: Path) -> None:
    write_atomically(file, page(run))


def page(run: Acceptance) -> str:
    done = [result for result in run.results if result.state != LEFT]
    passed = sum(result.state == PASSED for result in done)
    title = f"{passed} of {len(run.results)} parts passed"
    if len(done) < len(run.results):
        title += f", {len(run.results) - len(done)} not run"
    lead = f"Target npu, platform {run.platform}, image {run.image}, begun {run.began} (UTC)."
    body = [
        f"<h1>{title}</h1><p>{html.escape(lead)}</p>",
        f'<p class="note">{REHEARSAL if run.emulated else HARDWARE}</p>',
        _table(["", "part", "what must hold", "tests", "seconds"], map(_row, run.results), numeric_from=4),
    ]
    body += [section for result in run.results for section in _sections(result)]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>grstack: {title}</title><style>{STYLE}</style>{''.join(body)}</html>\n"
    )


def _row(result: Result) -> list[str]:
    kind = {PASSED: "passed", LEFT: "left"}.get(result.state, "failed")
    tests = ", ".join(f"{count} {name}" for name, count in result.tests.items() if count)
    claim = html.escape(result.claim) + (" <small>(a part of it)</small>" if result.rehearsed else "")
    log = f'<a href="{html.escape(result.log)}">{result.part}</a>' if result.log else result.part
    return [f'<span class="{kind}">{result.state}</span>', log, claim, tests, f"{result.seconds:.0f}"]


def _sections(result: Result) -> Iterable[str]:
    if result.failures:
        yield f"<h2>{result.part}: {len(result.failures)} failed</h2>"
    for test, text in result.failures.items():
        yield f"<details><summary>{html.escape(test)}</summary><pre>{html.escape(text)}</pre></details>"
    if result.figures:
        yield f"<h2>{result.part}</h2>{_figures(result.figures)}"


def _figures(figures: Any) -> str:
    """A table of a list of records, or of names and values."""
    if isinstance(figures, list) and figures and isinstance(figures[0], dict):
        names = list(figures[0])
        return _table(
            names, ([_cell(record.get(name)) for name in names] for record in figures), numeric_from=len(names)
        )
    items = figures.items() if isinstance(figures, dict) else [("", figures)]
    return _table(["", ""], ([html.escape(str(name)), _cell(value)] for name, value in items), numeric_from=2)


def _cell(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"<pre>{html.escape(value)}</pre>"
    return html.escape(value if isinstance(value, str) else json.dumps(value))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric_from: int) -> str:
    lines = ["<table><tr>", *(f"<th>{html.escape(name)}</th>" for name in head), "</tr>"]
    for row in rows:
        cells = (f'<td class="number">{c}</td>' if i >= numeric_from else f"<td>{c}</td>" for i, c in enumerate(row))
        lines += ["<tr>", *cells, "</tr>"]
    return "".join([*lines, "</table>"])
