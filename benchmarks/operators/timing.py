"""Two functions timed in turn, so that both see the same machine; results as JSON and as a table."""

import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

Call = Callable[[], object]

ROUNDS = 40
SAMPLE_SECONDS = 0.0005  # short, so that some samples are not interrupted by other work on the machine
PACKAGES = ("torch", "fbgemm_gpu_cpu", "numpy")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is timed. `ours` and `peer` take no argument and must give equal results."""

    name: str
    peer_name: str
    ours: Call
    peer: Call
    moved_bytes: int = 0  # read and written at least; 0: not stated


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    peer_name: str
    threads: int
    ours_ms: float
    peer_ms: float
    ratio: float  # the peer's best time over ours: above 1 we are faster
    spread: tuple[float, float]  # quartiles of the ratios of neighbouring samples
    peer_cpus: float  # CPU time of the peer over its wall time in its best sample: 1 means one thread
    ours_gb_per_s: float | None


@dataclass(frozen=True)
class Sample:
    seconds: float
    cpus: float


def _sample(call: Call, calls: int, clock: Callable[[], float]) -> Sample:
    cpu, wall, start = time.process_time(), time.perf_counter(), clock()
    for _ in range(calls):
        call()
    seconds, wall, cpu = clock() - start, time.perf_counter() - wall, time.process_time() - cpu
    return Sample(seconds / calls, cpu / wall)


def _calls(call: Call, clock: Callable[[], float]) -> int:
    call()
    return max(1, int(SAMPLE_SECONDS / max(_sample(call, 2, clock).seconds, 1e-9)))


def measure(case: Case, rounds: int = ROUNDS) -> Row:
    """On one thread the clock is the thread's CPU time, which other load on the machine does not enter."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    ours_calls, peer_calls = _calls(case.ours, clock), _calls(case.peer, clock)
    ours, peer = [], []
    for _ in range(rounds):
        ours.append(_sample(case.ours, ours_calls, clock))
        peer.append(_sample(case.peer, peer_calls, clock))
    ratios = [b.seconds / a.seconds for a, b in zip(ours, peer)]
    low, _, high = statistics.quantiles(ratios, n=4)
    best, best_peer = (min(samples, key=lambda s: s.seconds) for samples in (ours, peer))
    return Row(
        name=case.name,
        peer_name=case.peer_name,
        threads=torch.get_num_threads(),
        ours_ms=best.seconds * 1e3,
        peer_ms=best_peer.seconds * 1e3,
        ratio=best_peer.seconds / best.seconds,
        spread=(low, high),
        peer_cpus=best_peer.cpus,
        ours_gb_per_s=case.moved_bytes / best.seconds / 1e9 if case.moved_bytes else None,
    )


def run(cases: Sequence[Case], threads: Sequence[int], rounds: int = ROUNDS) -> list[Row]:
    rows = []
    before = torch.get_num_threads()
    try:
        for count in threads:
            torch.set_num_threads(count)
            for case in cases:
                rows.append(measure(case, rounds))
                print(_line(rows[-1]), flush=True)
    finally:
        torch.set_num_threads(before)
    return rows


def machine() -> dict[str, object]:
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as info:
            names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


HEADER = (
    "| case | peer | threads | ours ms | peer ms | ratio | quartiles | peer CPUs | ours GB/s |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def _line(row: Row) -> str:
    speed = "" if row.ours_gb_per_s is None else f"{row.ours_gb_per_s:.1f}"
    return (
        f"| {row.name} | {row.peer_name} | {row.threads} | {row.ours_ms:.3f} | {row.peer_ms:.3f} | {row.ratio:.2f} | "
        f"{row.spread[0]:.2f} to {row.spread[1]:.2f} | {row.peer_cpus:.1f} | {speed} |"
    )


def write(rows: Sequence[Row], target: Path, title: str, rounds: int) -> None:
    """`target`.json and `target`.md."""
    facts = machine()
    target.parent.mkdir(parents=True, exist_ok=True)
    data = {"title": title, "machine": facts, "rows": [asdict(row) for row in rows]}
    target.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in facts.items())
    text = (
        f"# {title}\n\n{described}.\n\nTimes are the best of {rounds} samples, taken in turn with the peer's; the "
        "ratio is the peer's time over ours, its quartiles are those of neighbouring samples. With one thread times "
        "are CPU time, with several wall time. Peer CPUs near 1 with several threads: the peer runs on one.\n\n"
    )
    target.with_suffix(".md").write_text(text + "\n".join([HEADER, *map(_line, rows)]) + "\n")
