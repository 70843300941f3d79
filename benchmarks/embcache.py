"""A table 20 times larger than the device's cache beside the same table all resident, on a power-law stream.

    python benchmarks/embcache.py [--rows N] [--factor 20] [--host-factor 4] [--look-ahead 3] [--rounds N]

One core does all that either side needs: training, prefetching, evictions, writes to disk and reads. Of the cached
table a twentieth is on the device (the CPU here), a quarter in host memory, the rest on disk. Both tables take the
same steps in turn: ids to slots, lookup, a dense layer on the rows (``--dense``: its width), and the fused update. At
the end all rows are compared bit by bit. The ratio is that of the processor time of the whole process (all threads) in
a round of steps with the cache and in the same steps with the resident table; asked is 1.2 by the median. Wall time,
of the same core, stands beside it. malloc keeps what is freed (kept_memory.py): else both would map activations of
33 MB anew in every step, the same on both sides, which would hide what the cache costs. Prints and writes a JSON and a
table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402
from hybrid_torchrec import HashTable, OptimizerSpec, TableConfig  # noqa: E402
from torchrec_embcache import CacheConfig, CachedTable  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kept_memory  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
ASKED = 1.2
NAMES = {
    "wall": "wall time of one core",
    "thread": "processor time of the training thread",
    "process": "processor time of the process",
}


class Stream:
    """Batches of ids: ``hot`` of them by a power law over the table's rows, truncated and inverted (Zipf, 1.05)."""

    def __init__(self, rows: int, length: int, exponent: float) -> None:
        self.rows, self.length, self.exponent = rows, length, exponent

    def batch(self, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        uniform = torch.rand(self.length, generator=generator, dtype=torch.float64)
        power = 1.0 - self.exponent
        ranks = ((self.rows**power - 1.0) * uniform + 1.0) ** (1.0 / power)
        return ranks.long().clamp_(1, self.rows) * -7046029254386353131


@dataclass
class Times:
    wall: float
    thread: float
    process: float
    faults: int  # pages that the system gave


def trained(table: HashTable, batches: list[torch.Tensor], dense: torch.Tensor, ahead: int) -> Times:
    cached = isinstance(table, CachedTable)
    start = time.perf_counter(), time.thread_time(), time.process_time(), kept_memory.faults()
    sent = 0
    for step, ids in enumerate(batches):
        while cached and ahead and sent < min(step + ahead + 1, len(batches)):
            table.prefetch(batches[sent])
            sent += 1
        slots = table.assign(ids, train=True)
        rows = table.lookup(slots)
        hidden = torch.relu(rows @ dense)
        table.update(slots, hidden @ dense.t() * 1e-3)
    while cached and table.waiting_rows:  # what these steps have left to write is theirs
        time.sleep(0.0005)
    end = time.perf_counter(), time.thread_time(), time.process_time(), kept_memory.faults()
    return Times(*(after - before for before, after in zip(start, end)))


def rounds(stream: Stream, first: int, count: int, steps: int) -> Iterator[list[torch.Tensor]]:
    for k in range(count):
        yield [stream.batch(first + k * steps + step) for step in range(steps)]


def same(a: HashTable, b: HashTable, ids: torch.Tensor) -> bool:
    left, right = a.read(ids)[0].named_tensors(), b.read(ids)[0].named_tensors()
    return all(torch.equal(left[name], right[name]) for name in left)


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    dim = arguments.dim
    config = TableConfig(name="item", dim=dim, optimizer=OptimizerSpec(kind=arguments.optimizer, lr=0.01))
    cache_rows = arguments.rows // arguments.factor
    host_rows = arguments.rows // arguments.host_factor if arguments.host_factor else None
    cache = CacheConfig(cache_rows=cache_rows, host_rows=host_rows, folder=folder if arguments.host_factor else None)
    resident, cached = HashTable(config), CachedTable(config, cache)
    everything = (torch.arange(1, arguments.rows + 1) * -7046029254386353131).split(1 << 16)
    for ids in everything:
        resident.assign(ids, train=True)
        cached.write(resident.read(ids)[0])
    cached.flush()  # the rows that filled it are not what the measured steps write
    cached.step, cached.insertions = resident.step, resident.insertions
    dense = torch.randn(dim, arguments.dense) / dim**0.5
    stream = Stream(arguments.rows, arguments.batch, arguments.exponent)
    for batches in rounds(stream, 10_000, arguments.warm_up, arguments.steps):
        trained(resident, batches, dense, 0)
        trained(cached, batches, dense, arguments.look_ahead)
    before, disk_before = asdict(cached.metrics.counters()), cached.disk_stats()
    ratios: dict[str, list[float]] = {"wall": [], "thread": [], "process": []}
    base: list[float] = []
    faults: dict[str, list[float]] = {"cached": [], "resident": []}
    for batches in rounds(stream, 0, arguments.rounds, arguments.steps):
        resident_times = trained(resident, batches, dense, 0)
        cached_times = trained(cached, batches, dense, arguments.look_ahead)
        for name in ratios:
            ratios[name].append(getattr(cached_times, name) / getattr(resident_times, name))
        base.append(resident_times.wall / arguments.steps)
        for side, times in (("cached", cached_times), ("resident", resident_times)):
            faults[side].append(times.faults / arguments.steps)
    counters = {name: value - before[name] for name, value in asdict(cached.metrics.counters()).items()}
    disk = cached.disk_stats()
    equal = all(same(resident, cached, ids) for ids in everything)
    cached.close()
    return {
        "bit_identical": equal,
        "resident_step_ms": statistics.median(base) * 1e3,
        "ratio": {name: quartiles(values) for name, values in ratios.items()},
        "page_faults_per_step": {side: statistics.median(counts) for side, counts in faults.items()},
        "hit_rate": counters["hits"] / counters["lookups"],
        "distinct_per_batch": counters["lookups"] / counters["batches"],
        "wait_ms_per_step": counters["prefetch_wait_seconds"] / counters["batches"] * 1e3,
        "evicted_per_step": counters["evicted_rows"] / counters["batches"],
        "late_share": counters["late_batches"] / counters["batches"],
        "shortened": counters["shortened"],
        "disk": {}
        if disk is None
        else {
            "rows on disk": disk.rows,
            "MB read a step": (disk.bytes_read - disk_before.bytes_read) / counters["batches"] / 1e6,
            "MB written a step": (disk.bytes_written - disk_before.bytes_written) / counters["batches"] / 1e6,
            "MB of old versions moved a step": (disk.bytes_compacted - disk_before.bytes_compacted)
            / counters["batches"]
            / 1e6,
        },
    }


def quartiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "low": ordered[len(ordered) // 4],
        "high": ordered[(3 * len(ordered)) // 4],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--factor", type=int, default=20)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dense", type=int, default=256, help="width of the dense layer")
    parser.add_argument("--batch", type=int, default=32_768)
    parser.add_argument("--exponent", type=float, default=1.05)
    parser.add_argument("--optimizer", default="rowwise_adagrad")
    parser.add_argument("--look-ahead", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm-up", type=int, default=3, help="rounds")
    parser.add_argument("--threads", type=int, default=1, help="of the training thread's operators")
    parser.add_argument("--host-factor", type=int, default=4, help="rows / rows in host memory; 0: all, no disk")
    parser.add_argument("--core", type=int, default=None, help="the one that does it all; default: the first")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "embcache-step")
    arguments = parser.parse_args()
    kept_memory.keep()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0] if arguments.core is None else arguments.core})
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        result = measure(arguments, folder)
    finally:
        shutil.rmtree(folder)
    settings = {name: value for name, value in vars(arguments).items() if name not in ("folder", "output")}
    facts = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "torch": torch.__version__}
    facts |= {"load": round(os.getloadavg()[0], 1), **kept_memory.SETTINGS, **settings}
    arguments.output.with_suffix(".json").write_text(json.dumps({**facts, "result": result}, indent=1) + "\n")
    lines = ["# Step with a cache beside a resident table", "", f"`python benchmarks/embcache.py`: {json.dumps(facts)}"]
    lines += ["", "| figure | value |", "|---|---|"]
    for name, value in result.items():
        if name == "ratio":
            for clock, figures in value.items():
                text = f"{figures['median']:.2f} ({figures['low']:.2f} to {figures['high']:.2f})"
                if clock == "process":
                    text += f"; {ASKED} asked: {'reached' if figures['median'] <= ASKED else 'missed'}"
                lines.append(f"| cached / resident, {NAMES[clock]} | {text} |")
        elif name == "page_faults_per_step":
            lines.append(
                f"| page faults per step, cached / resident | {value['cached']:,.0f} / {value['resident']:,.0f} |"
            )
        elif name == "disk":
            lines += [f"| {figure} | {number:,.2f} |" for figure, number in value.items()]
        else:
            lines.append(f"| {name.replace('_', ' ')} | {value if isinstance(value, bool) else round(value, 3)} |")
    arguments.output.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
