"""Training on several processes over gloo, one thread each: python -m benchmarks.training_processes [--processes 1 2 4]

ML-100K's configuration (dim 50, 2 blocks, 1 head, batch 128 over all processes, 128 negatives) on 512 made-up users of
20 to 200 interactions: whole steps of gr_model.trainer, with DDP where there are several. Two figures each: by the wall
clock, for an idle machine; and by processor time, which hardly sees other work: tokens of all processes over the
processor time of the slowest, waiting for the others included only as far as gloo spins.
Writes benchmarks/results/training-processes.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.data.interactions import History, Interactions  # noqa: E402
from gr_model.model import jagged  # noqa: E402
from gr_model.runtime import world  # noqa: E402
from gr_model.runtime.device import keep_freed_memory  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "training-processes.json"
USERS, ITEMS, WARM_UP = 512, 1682, 3


def data() -> Interactions:
    rng = np.random.default_rng(0)
    histories = []
    for length in rng.integers(21, 202, USERS):
        times = 10**9 + rng.integers(1, 10**5, length).cumsum()
        histories.append(History(rng.integers(ITEMS, size=length), np.zeros(length, np.int64), times, times[:0]))
    return Interactions("made up", tuple(histories), ITEMS, (0.0,), {})


def train(steps: int) -> None:
    """One process: prints what it measured."""
    torch.set_num_threads(1)
    keep_freed_memory()
    device = torch.device("cpu")
    fused = jagged.load_operators(device) == "gr_ops"
    config = configs.override(presets.get("ml-100k-retrieval"), ["model.attention=fused"] if fused else [])
    here = world.join(device)
    trainer = Trainer(config, data(), device, here)
    rows = []
    for step in range(WARM_UP + steps):
        here.barrier()
        wall, processor = time.perf_counter(), time.process_time()
        tokens = trainer.train_step().tokens
        if step >= WARM_UP:
            rows.append((tokens, time.perf_counter() - wall, time.process_time() - processor))
    print(json.dumps({"rank": here.rank, "attention": config.model.attention, "rows": rows}), flush=True)
    world.leave()


def measure(processes: int, steps: int, port: int) -> dict[str, object]:
    common = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"WORLD_SIZE": str(processes)} if processes > 1 else {}
    argv = [sys.executable, "-m", "benchmarks.training_processes", "--worker", "--steps", str(steps)]
    running = []
    for rank in range(processes):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        running.append(subprocess.Popen(argv, env={**common, **place}, stdout=subprocess.PIPE, text=True))
    found = []
    for process in running:
        out, _ = process.communicate(timeout=480)
        if process.returncode:
            raise SystemExit(f"a process ended with {process.returncode}; its messages are above")
        found.append(json.loads(out.splitlines()[-1]))
    tokens = [row[0] for row in found[0]["rows"]]
    walls, processors = (
        [max(row[column] for row in step) for step in zip(*(one["rows"] for one in found))] for column in (1, 2)
    )
    return {
        "processes": processes,
        "attention": found[0]["attention"],
        "tokens a step": round(statistics.mean(tokens)),
        "tokens_per_s": round(statistics.median(t / w for t, w in zip(tokens, walls))),
        "tokens_per_processor_s": round(statistics.median(t / p for t, p in zip(tokens, processors))),
    }


def report(rows: list[dict[str, object]], about: dict[str, object]) -> str:
    first = rows[0]
    lines = [
        "# Training on several processes",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items()) + ". Gloo, one thread a process, batch 128 over "
        "all of them. Medians over the steps; `python -m benchmarks.training_processes`.",
        "",
        "| processes | tokens/s, wall | to the first | tokens/s of the slowest's processor time | to the first |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        cells = []
        for name in ("tokens_per_s", "tokens_per_processor_s"):
            cells += [f"{row[name]:,}", f"{row[name] / first[name]:.2f}"]
        lines.append(f"| {row['processes']} | {' | '.join(cells)} |")
    crowded = [str(row["processes"]) for row in rows if row["processes"] > about["processors"]]
    if crowded:
        lines += [
            "",
            f"{', '.join(crowded)} processes share {about['processors']} processors: their wall clock cannot "
            "show how they scale, only what their number costs. Processor time can.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.steps)
        return
    load = round(os.getloadavg()[0], 1)
    rows = [measure(count, options.steps, options.port + i) for i, count in enumerate(options.processes)]
    about = {
        "processor": platform.machine(),
        "processors": os.cpu_count(),
        "load": load,
        "torch": torch.__version__,
        "attention": rows[0]["attention"],
    }
    text = report(rows, about)
    print(text)
    RESULTS.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    RESULTS.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
