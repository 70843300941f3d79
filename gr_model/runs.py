"""List runs: python -m gr_model.runs [FOLDER ...] [--by METRIC] [--json]

FOLDER is a run's folder, or one that holds runs (default: $GRSTACK_RUNS, else ./runs). A line for each run: whether
it goes on, its step, its last loss and evaluation, and the settings that are not those of its config. Newest first,
or the best first by a metric. Exit codes: 0 done, 1 there is no run, or one that cannot be read.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gr_model.common import errors
from gr_model.common.errors import GrModelError
from gr_model.run import checkpoint, folder, run_id
from gr_model.run import log as runlog
from gr_model.run.lock import LOCK

SHOWN = 3  # metrics, where --by names none


class NoRuns(GrModelError, RuntimeError):
    pass


@dataclass(frozen=True, kw_only=True)
class Run:
    folder: str
    run: str
    config: str
    state: str  # running, done, stopped
    step: int
    steps: int
    loss: float | None
    metrics: dict[str, float]
    settings: dict[str, Any]  # not the config's own
    checkpoint: str  # the newest's name; empty where there is none
    written: float  # seconds since the epoch


def find(places: Sequence[Path]) -> Iterator[Path]:
    """The runs' folders in `places`, which are such themselves or hold them; links (`latest`) are left out."""
    for place in places:
        inside = sorted(place.iterdir()) if place.is_dir() else []
        yield from [place] if is_run(place) else [each for each in inside if is_run(each) and not each.is_symlink()]


def is_run(place: Path) -> bool:
    return (place / run_id.FILE).is_file()


def read(place: Path) -> Run:
    """RunIdError and LogError where the run's files are damaged."""
    mark = run_id.read(place)
    assert mark is not None, place  # find() has seen its file
    log = place / "log.jsonl"
    events = runlog.read(log) if log.exists() else []
    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    starts = [event["config"] for event in events if event["event"] == "start"]
    config = starts[-1] if starts else mark.config
    total, step = int(config["train"]["steps"]), int(steps[-1]["step"]) if steps else 0
    newest = checkpoint.newest(place)
    return Run(
        folder=str(place),
        run=mark.run,
        config=mark.name,
        state="running" if _is_written(place) else "done" if step >= total else "stopped",
        step=step,
        steps=total,
        loss=steps[-1]["loss"] if steps else None,
        metrics=evaluations[-1]["metrics"] if evaluations else {},
        settings=_changed(mark.name, config),
        checkpoint=newest.name if newest else "",
        written=(log if log.exists() else place / run_id.FILE).stat().st_mtime,
    )


def _is_written(place: Path) -> bool:
    """Whether a process holds the run's lock; nothing is made or changed."""
    try:
        with (place / LOCK).open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    return False


def _changed(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the preset's, by dotted name; from the defaults where there is no such preset."""
    from gr_model.config import overrides, presets

    given = _flat(json.loads(json.dumps(config)))
    try:
        own = _flat(json.loads(json.dumps(asdict(presets.get(name)))))
    except GrModelError:
        own = json.loads(json.dumps(overrides.defaults()))
    return {key: value for key, value in given.items() if key not in own or own[key] != value}


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def ordered(runs: list[Run], by: str) -> list[Run]:
    """The best first by a metric, runs without it last; without one the newest first."""
    if not by:
        return sorted(runs, key=lambda run: -run.written)
    if not any(by in run.metrics for run in runs):
        known = ", ".join(sorted({name for run in runs for name in run.metrics})) or "none"
        raise NoRuns(f"no run has the metric {by!r}\n  known: {known}")
    return sorted(runs, key=lambda run: -run.metrics.get(by, float("-inf")))


def table(runs: Sequence[Run], by: str = "") -> str:
    names = [by] if by else list(dict.fromkeys(name for run in runs for name in list(run.metrics)[:SHOWN]))[:SHOWN]
    rows = [["run", "config", "state", "step", "loss", *names, "last written", "settings"]]
    for run in runs:
        shown = (f"{run.metrics[name]:.4f}" if name in run.metrics else "-" for name in names)
        loss = "-" if run.loss is None else f"{run.loss:.4f}"
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.written))
        settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
        rows.append([run.folder, run.config, run.state, f"{run.step}/{run.steps}", loss, *shown, when, settings])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = ("  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths)), row[-1]]) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gr_model.runs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--by", default="", metavar="METRIC", help="the best first, for example ndcg@10")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    options = parser.parse_args(argv)
    places = options.folders or [folder.root()]
    try:
        runs = [read(place) for place in find(places)]
        if not runs:
            raise NoRuns(
                f"no run in {', '.join(map(str, places))}\n  next: python -m gr_model.train --config smoke, "
                "or name the folder that holds the runs"
            )
        runs = ordered(runs, options.by)
    except (GrModelError, OSError) as error:
        print(f"error: {errors.told(error) or error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(run) for run in runs], indent=1) if options.json else table(runs, options.by))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
