"""The report for people, one HTML file without anything from outside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from grstack.accept.parts import NEVER
from grstack.accept.results import LEFT, PASSED, Acceptance, Result
from grstack.files import write_atomically

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2a7d4f; --bad: #b3352b; --quiet: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
div.number { text-align: right; font-variant-numeric: tabular-nums; }
.passed { color: var(--good); font-weight: 600; } .failed { color: var(--bad); font-weight: 600; }
.never { color: var(--bad); }
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
        f"<p>{_new_on_hardware(run)}</p>",
        _table(["", "part", "what must hold", "on hardware before", "tests", "seconds"], map(_row, run.results)),
    ]
    body += [section for result in run.results for section in _sections(result)]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>grstack: {title}</title><style>{STYLE}</style>{''.join(body)}</html>\n"
    )


def _new_on_hardware(run: Acceptance) -> str:
    never = [result for result in run.results if result.on_hardware_before == NEVER]
    if not never:
        return "Every part has run on hardware before."
    text = f"{len(never)} of {len(run.results)} parts were never run on hardware before"
    if run.emulated:
        return f"{text}, nor are they here."
    ran = [result.part for result in never if result.state != LEFT]
    return f"{text}; the first to be, here: {', '.join(ran)}." if ran else f"{text}, nor were they here."


def _row(result: Result) -> list[str]:
    kind = {PASSED: "passed", LEFT: "left"}.get(result.state, "failed")
    tests = ", ".join(f"{count} {name}" for name, count in result.tests.items() if count)
    claim = html.escape(result.claim) + (" <small>(a part of it)</small>" if result.rehearsed else "")
    log = f'<a href="{html.escape(result.log)}">{result.part}</a>' if result.log else result.part
    before = html.escape(result.on_hardware_before)
    if result.on_hardware_before == NEVER:
        before = f'<span class="never">{before}</span>'
    return [f'<span class="{kind}">{result.state}</span>', log, claim, before, tests, _cell(round(result.seconds))]


def _sections(result: Result) -> Iterable[str]:
    if result.failures:
        told = "not run" if result.state == LEFT else f"{len(result.failures)} failed"
        yield f"<h2>{result.part}: {told}</h2>"
    for test, text in result.failures.items():
        yield f"<details><summary>{html.escape(test)}</summary><pre>{html.escape(text)}</pre></details>"
    if result.figures:
        yield f"<h2>{result.part}</h2>{_figures(result.figures)}"


def _figures(figures: Any) -> str:
    """A table of a list of records, or of names and values; tables in their cells where these are such too."""
    if isinstance(figures, list) and figures and all(isinstance(record, dict) for record in figures):
        names = list(figures[0])
        return _table(names, ([_cell(record.get(name)) for name in names] for record in figures))
    if isinstance(figures, dict):
        return _table([], ([html.escape(str(name)), _cell(value)] for name, value in figures.items()))
    return html.escape(figures if isinstance(figures, str) else json.dumps(figures))


def _cell(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"<pre>{html.escape(value)}</pre>"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<div class="number">{value:,}</div>'
    return _figures(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<table><tr>", *(f"<th>{html.escape(name)}</th>" for name in head), "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "".join([*lines, "</table>"])
