"""Rows as JSON and as a table."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from .timing import Row

PACKAGES = ("torch", "fbgemm_gpu_cpu", "numpy")
COLUMNS = (
    "operator",
    "case",
    "peer",
    "threads",
    "ours ms",
    "peer ms",
    "ratio",
    "quartiles",
    "first calls",
    "asked",
    "peer's other threads",
    "rate",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
EXPLANATION = """\
Ratio = peer / ours, the median of pairs of neighbouring samples, with their quartiles. One thread: processor time;
several: wall time, which wants an idle machine. Peer's other threads: their share of its processor time, measured in a
process whose waiting threads sleep. Where it is below a third of an even share, and the peer runs long enough for a
second thread to pay (50 us), it counts as single-threaded, and twice its speed is asked for. (Tables before the evening
of November 22, 2026, judged by the peer's speed on one thread and on several, which changes with what else the host
runs.) Rate: bytes that have to be read and written, or floating-point operations of the products that have to be done,
over our time.

A sample is calls in a row after a first one that does not count: each side finds the caches as its own calls leave
them, and a peer `clone`, which copies as many bytes in all, has the working set that ours has. `First calls` is the
ratio of those that do not count, each of which finds what the other side has left. (If they counted, they would be a
larger share of the samples of the side with the longer calls: a clone of 5 MB, three calls to a sample, would be
measured in a warm cache beside ours in a cold one. Tables before November 22, 2026, counted them.) The column is empty
for steps, whose samples are one call after its own preparation. Results come from PyTorch's allocator, but ours of 1 MB
and more from memory that earlier ones left. The two sides share no memory then.

A peer `bytes alone` is a plain loop compiled for this machine that moves or reads just the bytes that the operator has
to, with no dispatcher, no checks and no result to allocate. It bounds what any implementation can reach: where its
ratio is about 1, memory is the limit. Nothing is asked for beside it."""


def machine() -> dict[str, object]:
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as info:
            names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _milliseconds(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def line(row: Row) -> str:
    rate = ""
    if row.gb_per_s is not None:
        rate = f"{row.gb_per_s:.1f} GB/s"
    elif row.gflop_per_s is not None:
        rate = f"{row.gflop_per_s:.0f} GFLOP/s"
    share = "" if row.peer_share is None else f"{row.peer_share:.0%}"
    first = "" if row.first == row.ratio else f"{row.first:.2f}"
    return (
        f"| {row.operator} | {row.shape} | {row.peer} | {row.threads} | {_milliseconds(row.ours_ms)} | "
        f"{_milliseconds(row.peer_ms)} | {row.ratio:.2f} | {row.low:.2f} to {row.high:.2f} | {first} | "
        f"{'missed ' if row.missed else ''}{f'{row.target:g}' if row.target else 'a bound'} | "
        f"{share}{', single-threaded' if row.alone else ''} | {rate} |"
    )


def write(rows: Sequence[Row], target: Path, title: str) -> None:
    """`target`.json and `target`.md."""
    facts = machine()
    target.parent.mkdir(parents=True, exist_ok=True)
    missed = [row for row in rows if row.missed]
    asked = [row for row in rows if row.target]
    data = {"title": title, "machine": facts, "missed": len(missed), "rows": [asdict(row) for row in rows]}
    target.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in facts.items())
    verdict = f"{len(asked) - len(missed)} of {len(asked)} rows reach what is asked for."
    text = [f"# {title}", "", f"{described}.", "", EXPLANATION, "", verdict, "", HEADER, *map(line, rows)]
    target.with_suffix(".md").write_text("\n".join(text) + "\n")
