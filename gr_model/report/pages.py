"""A training run as one HTML page without outside files; curves are inline SVG."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
BACKBONES = {"hstu": "HSTU", "sasrec": "SASRec", "dcn": "DCN V2"}
COLOURS = ("#1f6feb", "#d1570a", "#187a4b", "#8250df", "#b3261e", "#0e7c86")


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def page(title: str, lead: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style><main><h1>{html.escape(title)}</h1>"
        f'<p class="lead">{lead}</p>{body}</main></html>\n'
    )


def chart(title: str, series: Sequence[Series], caption: str = "", x_label: str = "step") -> str:
    """A line chart with axes, a legend and the last value of each series."""
    # What is not a number (the AUC of a task without one positive) has no place on a chart.
    series = [Series(s.name, [p for p in s.points if math.isfinite(p[1])], s.dashed) for s in series]
    series = [line for line in series if line.points]
    if not series:
        return f'<div class="card"><h3>{html.escape(title)}</h3><p>no points</p></div>'
    width, left, right, top = 520, 52, 12, 12
    labels = [f"{line.name} {shown(line.points[-1][1])}" for line in series]
    places, rows = _legend(labels, left, width - right)
    bottom = 40 + 18 * rows
    height = 228 + bottom
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1)
    y_low, y_high = _padded(min(ys), max(ys))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x - x_low) / (x_high - x_low) * (width - left - right),
            height - bottom - (y - y_low) / (y_high - y_low) * (height - top - bottom),
        )

    parts = []
    for tick in _ticks(y_low, y_high):
        y = at(x_low, tick)[1]
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6ebf1"/>')
        parts.append(_text(left - 7, y + 4, f"{tick:,g}", "end"))
    for tick in _ticks(x_low, x_high):
        parts.append(_text(at(tick, y_low)[0], height - bottom + 17, f"{tick:g}", "middle"))
    parts.append(_text(width - right, height - bottom + 33, x_label, "end"))
    for index, (line, label, (legend_x, row)) in enumerate(zip(series, labels, places)):
        colour = COLOURS[index % len(COLOURS)]
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line.points))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        if len(line.points) < 12 and not line.dashed:
            dots = (at(*point) for point in line.points)
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots]
        y = height - 8 - 18 * (rows - 1 - row)
        ends = f'x1="{legend_x}" x2="{legend_x + 18}" y1="{y - 4}" y2="{y - 4}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="2.5"{dash}/>')
        parts.append(_text(legend_x + 23, y, label, "start"))
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return (
        f'<div class="card"><h3>{html.escape(title)}</h3><figure>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
        f"{note}</figure></div>"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric_from: int = 1) -> str:
    """Cells are HTML; columns from `numeric_from` on are aligned right."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if index >= numeric_from else f"<{tag}>{cell}</{tag}>"
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def training_page(events: Sequence[dict[str, Any]]) -> str:
    """The page of a run; `events` are the records of its log."""
    start = [event for event in events if event["event"] == "start"][-1]
    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    baseline, config = start["baseline"], start["config"]
    last = evaluations[-1]["metrics"] if evaluations else {}
    rows = [_against(name, value, baseline["metrics"].get(name)) for name, value in last.items()]
    charts = [chart("Training loss", [Series("loss", [(e["step"], e["loss"]) for e in steps])])]
    charts += metric_charts(evaluations, baseline, backbone(start))
    body = (
        f"<h2>Result after {evaluations[-1]['step'] if evaluations else 0} steps</h2>"
        + table(["metric", "model", html.escape(baseline["name"]), "ratio"], rows)
        + f"<p>{html.escape(start['protocol'])}.</p>"
        + f'<h2>Curves</h2><div class="cards">{"".join(charts)}</div>'
        + f"<h2>Speed</h2>{speed_table(steps, start)}"
        + f'<div class="cards">{"".join(speed_charts(steps))}</div>'
        + "".join(counts_section(event) for event in [e for e in events if e["event"] == "counts"][-1:])
        + f"<details><summary>Settings</summary><pre>{html.escape(json.dumps(config, indent=2))}</pre></details>"
    )
    return page(f"{config['task'].capitalize()}: {backbone(start)}", lead(start), body)


def counts_section(event: dict[str, Any]) -> str:
    """What the first process launched, waited for and copied; `event` is the log's."""
    figures = [[html.escape(name), html.escape(figure)] for name, figure in event["figures"]]
    places = [[html.escape(call), html.escape(at) or "not from Python", f"{n:,}"] for call, at, n in event["places"]]
    return (
        "<h2>Counted on the emulated NPU</h2>"
        + table(["of a step, median", "count"], figures)
        + (f"<p>Waits, and copies to the host, in {event['steps']} steps:</p>" if places else "")
        + (table(["call", "from", "count"], places, numeric_from=2) if places else "")
    )


def dataset(config: dict[str, Any]) -> str:
    """Its name, or that of the user's own file."""
    path = config.get("data", {}).get("path", "")
    return Path(path).name if path else str(config["dataset"])


def backbone(start: dict[str, Any]) -> str:
    """The name of the run's model."""
    name = start["config"]["model"]["backbone"]
    return BACKBONES.get(name, name)


def lead(start: dict[str, Any]) -> str:
    """HTML: what ran on what."""
    processes = f", {start['processes']} processes" if start.get("processes", 1) > 1 else ""
    text = f"{html.escape(dataset(start['config']))} on {html.escape(start['device'])}{processes}, "
    text += f"torch {html.escape(start['torch'])}"
    text += f", run {html.escape(start['run'])}." if "run" in start else "."
    if "emulated" in start["device"]:
        text += ' <span class="badge twin">emulated NPU: figures of speed say nothing about hardware</span>'
    return text


def speed(steps: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over the steps but the first five, which warm up."""
    measured = list(steps[5:]) or list(steps)
    if not measured:
        return {}
    figures = {
        "seconds per step": median(e["seconds"] for e in measured),
        "steps per second": 1 / median(e["seconds"] for e in measured),
        "tokens per second": median(e["tokens"] / e["seconds"] for e in measured),
    }
    if "mfu" in measured[0]:
        figures["MFU, %"] = 100 * median(e["mfu"] for e in measured)
    for name in phases_of(measured):
        figures[f"seconds in {name}"] = median(e["phases"].get(name, 0.0) for e in measured)
    for name, value in next((e["memory"] for e in reversed(measured) if "memory" in e), {}).items():
        figures[f"peak memory of the {name}, MiB"] = value / 2**20
    return figures


def shown(value: float) -> str:
    """Four digits, or all of a large number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def phases_of(steps: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for e in steps for name in e.get("phases", {})))


def speed_table(steps: Sequence[dict[str, Any]], start: dict[str, Any]) -> str:
    rows = [[html.escape(name), shown(value)] for name, value in speed(steps).items()]
    peak = start.get("peak")
    note = f"<p>MFU against {peak['flops'] / 1e12:,.3g} TFLOP/s: {html.escape(peak['source'])}.</p>" if peak else ""
    return table(["median of the steps", "value"], rows) + note


def speed_charts(steps: Sequence[dict[str, Any]]) -> list[str]:
    stacked = [
        Series(name, [(e["step"], e["phases"].get(name, 0.0)) for e in steps if "phases" in e])
        for name in phases_of(steps)
    ]
    return [
        chart("Seconds per step", [Series("seconds", [(e["step"], e["seconds"]) for e in steps])]),
        chart("Tokens per second", [Series("tokens/s", [(e["step"], e["tokens"] / e["seconds"]) for e in steps])]),
        chart("MFU, %", [Series("MFU", [(e["step"], 100 * e["mfu"]) for e in steps if "mfu" in e])]),
        chart("Seconds by phase", stacked),
        chart("Peak memory, MiB", memory_series(steps)),
    ]


def memory_series(steps: Sequence[dict[str, Any]]) -> list[Series]:
    """In MiB; of the host, and of the device where there is one."""
    told = [e for e in steps if "memory" in e]
    kinds = list(dict.fromkeys(name for e in told for name in e["memory"]))
    return [
        Series(kind, [(e["step"], e["memory"][kind] / 2**20) for e in told if kind in e["memory"]]) for kind in kinds
    ]


def metric_charts(evaluations: Sequence[dict[str, Any]], baseline: dict[str, Any], model: str) -> list[str]:
    names = list(evaluations[-1]["metrics"]) if evaluations else []
    charts = []
    for name in names:
        points = [(e["step"], e["metrics"][name]) for e in evaluations]
        level = baseline_series(baseline, name, points, min(0, points[0][0]))
        charts.append(chart(name, [Series(model, points), level]))
    return charts


def baseline_series(
    baseline: dict[str, Any], metric: str, points: Sequence[tuple[float, float]], start: float
) -> Series:
    """A level from step `start` to the last of `points`; without points where the baseline has no such metric."""
    level = baseline["metrics"].get(metric)
    flat = [] if level is None else [(start, level), (points[-1][0], level)]
    return Series(baseline["name"], flat, dashed=True)


def _against(name: str, value: float, baseline: float | None) -> list[str]:
    """A row of the table of metrics."""
    if baseline is None:
        return [html.escape(name), f"{value:.4f}", "", ""]
    return [html.escape(name), f"{value:.4f}", f"{baseline:.4f}", f"{value / baseline:.2f}" if baseline else ""]


def _legend(labels: Sequence[str], left: int, right: int) -> tuple[list[tuple[int, int]], int]:
    """(x, row) of each label, so that none is cut off; how many rows."""
    places, x, row = [], left, 0
    for label in labels:
        wide = 40 + 7 * len(label)
        if x > left and x + wide > right:
            x, row = left, row + 1
        places.append((x, row))
        x += wide
    return places, row + 1


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (low - margin if low < 0 or low > margin else 0.0), high + margin


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    raw = (high - low) / count
    power = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 10.0 ** -next(n for n in range(1, 30) if raw * 10**n >= 1)
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.8)
    first = -(-low // step) * step
    return [round(first + index * step, 12) for index in range(int((high - first) / step + 1e-9) + 1)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    style = f'font-size="12" fill="#5d6b7a" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(text)}</text>'
