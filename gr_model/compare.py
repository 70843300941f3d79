"""Compare two runs: python -m gr_model.compare RUN_A RUN_B [--out PAGE]

RUN is the --out folder of a training, or its log.jsonl. Prints a table and writes an HTML page.
Exit codes: 0 done, 1 a run that cannot be read.
"""

from __future__ import annotations

import argparse
import html
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gr_model.common import errors, files
from gr_model.common.errors import GrModelError
from gr_model.report import pages as report
from gr_model.report.pages import Series
from gr_model.run import log as runlog


class RunError(GrModelError, RuntimeError):
    pass


@dataclass(frozen=True)
class RunRecord:
    name: str
    start: dict[str, Any]
    steps: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @property
    def last(self) -> dict[str, float]:
        return self.evaluations[-1]["metrics"] if self.evaluations else {}

    def settings(self) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name, value in self.start["config"].items():
            flat |= (
                {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
            )
        return {
            **flat,
            "device": self.start["device"],
            "processes": self.start.get("processes", 1),
            "torch": self.start["torch"],
        }


def read(path: Path) -> RunRecord:
    log = path / "log.jsonl" if path.is_dir() else path
    try:
        events = runlog.read(log)
    except OSError as error:
        raise RunError(f"{log}: not the log of a run ({error})") from None
    starts = [event for event in events if event["event"] == "start"]
    if not starts:
        raise RunError(f"{log}: has no start; was the run made by this version of gr_model.train?")
    _of_one_run(log, events)
    name = path.name if path.is_dir() else path.parent.name
    steps, evaluations = ([e for e in events if e["event"] == kind] for kind in ("step", "evaluation"))
    return RunRecord(name, starts[-1], steps, evaluations)


def _of_one_run(log: Path, events: list[dict[str, Any]]) -> None:
    """RunError where lines of several runs stand in one log, as versions before ids could leave it."""
    runs = list(dict.fromkeys(event["run"] for event in events if "run" in event))
    if len(runs) > 1:
        raise RunError(f"{log}: has lines of several runs: {', '.join(runs)}; its curve would be of none of them")
    last = None
    for event in events:
        if event["event"] == "start" and last is not None and event.get("step", last) != last:
            raise RunError(
                f"{log}: goes on after step {event['step']}, but the step before in it is {last}: lines of two runs"
            )
        last = event["step"] if event["event"] == "step" else last


def check_kinds(a: RunRecord, b: RunRecord) -> None:
    """RunError for two runs of which no figure can be compared."""
    tasks = [run.start["config"]["task"] for run in (a, b)]
    if tasks[0] != tasks[1]:
        raise RunError(
            f"{a.name} is a run of {tasks[0]}, {b.name} of {tasks[1]}: their losses and metrics cannot be compared\n"
            "  next: name two runs of one task"
        )


def figures(a: RunRecord, b: RunRecord) -> list[tuple[str, float | None, float | None]]:
    """Name, A's value, B's value: the last metrics, the loss at the last common step, and the speed."""
    rows = [(name, a.last.get(name), b.last.get(name)) for name in dict.fromkeys([*a.last, *b.last])]
    losses = [{e["step"]: e["loss"] for e in run.steps} for run in (a, b)]
    common = losses[0].keys() & losses[1].keys()
    if common:
        step = max(common)
        rows.append((f"loss at step {step}", losses[0][step], losses[1][step]))
        apart = max(abs(losses[0][s] - losses[1][s]) / max(abs(losses[1][s]), 1e-30) for s in common)
        rows.append(("largest relative difference of a loss", None, apart))
    speeds = [report.speed(run.steps) for run in (a, b)]
    rows += [(name, speeds[0].get(name), speeds[1].get(name)) for name in dict.fromkeys([*speeds[0], *speeds[1]])]
    return rows


def differences(a: RunRecord, b: RunRecord) -> list[tuple[str, str, str]]:
    mine, other = a.settings(), b.settings()
    names = dict.fromkeys([*mine, *other])
    return [(n, str(mine.get(n, "")), str(other.get(n, ""))) for n in names if mine.get(n) != other.get(n)]


def page(a: RunRecord, b: RunRecord) -> str:
    names = _names(a, b)
    rows = [[html.escape(n), _shown(x), _shown(y), _ratio(x, y)] for n, x, y in figures(a, b)]
    settings = [[html.escape(n), html.escape(x), html.escape(y)] for n, x, y in differences(a, b)]
    charts = [report.chart("Training loss", _pair(names, a, b, lambda e: e["loss"]))]
    for metric in dict.fromkeys([*a.last, *b.last]):
        series = [
            Series(name, [(e["step"], e["metrics"][metric]) for e in run.evaluations if metric in e["metrics"]])
            for name, run in zip(names, (a, b))
        ]
        charts.append(report.chart(metric, series))
    charts.append(report.chart("Tokens per second", _pair(names, a, b, lambda e: e["tokens"] / e["seconds"])))
    charts.append(report.chart("MFU, %", _pair(names, a, b, lambda e: 100 * e.get("mfu", 0.0))))
    heads = [html.escape(name) for name in names]
    body = (
        "<h2>Figures</h2>"
        + report.table(["", *heads, "ratio"], rows)
        + f'<h2>Curves</h2><div class="cards">{"".join(charts)}</div>'
        + "<h2>Settings that differ</h2>"
        + (report.table(["", *heads], settings) if settings else "<p>None.</p>")
    )
    lead = "<br>".join(f"<b>{head}</b>: {report.lead(run.start)}" for head, run in zip(heads, (a, b)))
    return report.page(f"{names[0]} and {names[1]}", lead, body)


def text(a: RunRecord, b: RunRecord) -> str:
    rows = [(n, _shown(x), _shown(y), _ratio(x, y)) for n, x, y in figures(a, b)]
    table = [("", *_names(a, b), "ratio"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    lines = [f"{row[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:])) for row in table]
    for name, x, y in differences(a, b):
        lines.append(f"{name}: {x or '-'} -> {y or '-'}")
    return "\n".join(line.rstrip() for line in lines)


def _names(a: RunRecord, b: RunRecord) -> tuple[str, str]:
    return (a.name, b.name) if a.name != b.name else (f"{a.name} (A)", f"{b.name} (B)")


def _pair(names: tuple[str, str], a: RunRecord, b: RunRecord, value: Any) -> list[Series]:
    return [Series(name, [(e["step"], value(e)) for e in run.steps]) for name, run in zip(names, (a, b))]


def _shown(value: float | None) -> str:
    return "" if value is None else report.shown(value)


def _ratio(x: float | None, y: float | None) -> str:
    return f"{y / x:.3f}" if x and y is not None else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gr_model.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("run_a", type=Path)
    parser.add_argument("run_b", type=Path)
    parser.add_argument("--out", type=Path, default=Path("compare.html"), help="the page (default: compare.html)")
    options = parser.parse_args(arguments)
    try:
        a, b = read(options.run_a), read(options.run_b)
        check_kinds(a, b)
        print(text(a, b))
        files.write_text(options.out, page(a, b))
    except (GrModelError, OSError) as error:
        said = errors.told(error)
        if said is None:
            raise
        print(f"error: {said}", file=sys.stderr)
        return 1
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
