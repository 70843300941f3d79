"""Rows as JSON and as a table."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from .timing import Row, Timing

PACKAGES = ("torch", "fbgemm_gpu_cpu", "numpy")
COLUMNS = (
    "operator",
    "case",
    "peer",
    "threads",
    "cold: ours ms",
    "peer ms",
    "ratio",
    "quartiles",
    "warm: ours ms",
    "peer ms",
    "ratio",
    "quartiles",
    "asked",
    "peer's other threads",
    "rate, cold",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
EXPLANATION = """\
Ratio = peer / ours, the median of pairs of neighbouring samples, with their quartiles. Cold: every call has a batch of
its own, as in training, and comes after the other side's calls; batches come again after 64 MB of inputs, or after 64.
Warm: half a millisecond of calls on one batch, after one that does not count. **Both count**: a row that is below what
is asked for in either has missed it. One thread: processor time; several: wall time, which wants an idle machine.

Neither side pays for fresh memory: the process's malloc keeps what is freed, as the plugin keeps its own results.
`copy_` copies as many bytes in all as the operator reads and writes, into memory that is there.

Peer's other threads: their share of its processor time, measured in a process whose waiting threads sleep, after its
first calls. Where it is below a third of an even share, and the peer runs long enough for a second thread to pay
(50 us), it counts as single-threaded, and twice its speed is asked for. Rate: bytes that have to be read and written,
or floating-point operations of the products that have to be done, over our time.

A peer `bytes alone` is a plain loop compiled for this machine that moves or reads just the bytes that the operator has
to, with no dispatcher, no checks and no result to allocate. It bounds what any implementation can reach: where its
ratio is about 1, memory is the limit. Nothing is asked for beside it.

Tables before November 25, 2026, repeated one batch in all calls and left the first of each sample out (`warm` does
that still), and let peers allocate."""


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


def _timing(timing: Timing) -> str:
    return (
        f"{_milliseconds(timing.ours_ms)} | {_milliseconds(timing.peer_ms)} | {timing.ratio:.2f} | "
        f"{timing.low:.2f} to {timing.high:.2f}"
    )


def line(row: Row) -> str:
    rate = ""
    if row.gb_per_s is not None:
        rate = f"{row.gb_per_s:.1f} GB/s"
    elif row.gflop_per_s is not None:
        rate = f"{row.gflop_per_s:.0f} GFLOP/s"
    share = "" if row.peer_share is None else f"{row.peer_share:.0%}"
    return (
        f"| {row.operator} | {row.shape} | {row.peer} | {row.threads} | {_timing(row.cold)} | {_timing(row.warm)} | "
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
    faults = max(max(*row.cold.faults, *row.warm.faults) for row in rows)
    verdict = (
        f"{len(asked) - len(missed)} of {len(asked)} rows reach what is asked for, cold and warm. "
        f"Page faults of a call: {faults:g} at most."
    )
    text = [f"# {title}", "", f"{described}.", "", EXPLANATION, "", verdict, "", HEADER, *map(line, rows)]
    target.with_suffix(".md").write_text("\n".join(text) + "\n")
