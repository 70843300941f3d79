"""The curves of a run as PNGs, for documents and chats that show no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gr_model.common.files import replacing
from gr_model.report import pages as report


def write(events: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """loss.png, metrics.png, speed.png and memory.png in `folder`; empty where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    start = [event for event in events if event["event"] == "start"][-1]
    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    model = report.backbone(start)
    title = f"{model}, {start['config']['task']}, {report.dataset(start['config'])}, {start['device']}"

    def save(name: str, panels: list[tuple[str, list[report.Series]]]) -> Path:
        figure = Figure(figsize=(5.2 * min(3, len(panels)), 3.4 * -(-len(panels) // 3)), layout="constrained")
        for index, (label, series) in enumerate(panels, start=1):
            axes = figure.add_subplot(-(-len(panels) // 3), min(3, len(panels)), index)
            for line in series:
                if line.points:
                    marker = "o" if len(line.points) < 12 and not line.dashed else None
                    axes.plot(*zip(*line.points), "--" if line.dashed else "-", label=line.name, marker=marker)
            axes.set_title(label, fontsize=10)
            axes.set_xlabel("step")
            axes.grid(alpha=0.3)
            if any(line.points for line in series):
                axes.legend(fontsize=8)
        figure.suptitle(title, fontsize=11)
        path = folder / f"{name}.png"
        with replacing(path) as file:
            figure.savefig(file, format="png", dpi=110, metadata={"Run": start.get("run", "")})
        return path

    written = [save("loss", [("Training loss", [report.Series("loss", [(e["step"], e["loss"]) for e in steps])])])]
    panels = []
    for name in evaluations[-1]["metrics"] if evaluations else ():
        points = [(e["step"], e["metrics"][name]) for e in evaluations]
        level = report.baseline_series(start["baseline"], name, points, points[0][0])
        panels.append((name, [report.Series(model, points), level]))
    if panels:
        written.append(save("metrics", panels))
    phases = [
        report.Series(name, [(e["step"], e["phases"].get(name, 0.0)) for e in steps if "phases" in e])
        for name in report.phases_of(steps)
    ]
    rate = [(e["step"], e["tokens"] / e["seconds"]) for e in steps]
    mfu = [(e["step"], 100 * e["mfu"]) for e in steps if "mfu" in e]
    speed = [("Tokens per second", [report.Series("tokens/s", rate)]), ("MFU, %", [report.Series("MFU", mfu)])]
    written.append(save("speed", [*speed, ("Seconds by phase", phases)]))
    written.append(save("memory", [("Peak memory, MiB", report.memory_series(steps))]))
    return written
