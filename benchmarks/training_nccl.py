"""Training on several GPUs over nccl, one process each: python -m benchmarks.training_nccl [--processes 1 2]

The article's configuration (benchmarks/training_device.py: 3 layers, 4 heads of 128, sequences to 8000, bfloat16), with
DDP and with FSDP: a batch of 32 for each process, and a batch of 32 over all of them. The former also with a hash table
of items, whose rows are spread over the processes; "ahead" by train.pipeline, which makes batches and sends their ids
while earlier ones train. Whole steps by the wall clock, data loading included, each waited for; tokens of all processes
over the seconds of the slowest. Then as many in a row, of which the last is waited for, as training does. First losses
are compared with those of one process on the same users, whose dropout draws other numbers.
Writes benchmarks/results/training-nccl.{json,md}.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from gr_model import config as configs
from gr_model.model import flops
from gr_model.runtime import world
from gr_model.runtime.device import describe, open_device
from gr_model.training.trainer import Trainer

from .training_device import RESULTS, config_of, data

WARM_UP, EACH = 8, 32
COMPARED = 3  # losses
HASH = ["embedding.kind=hash", "embedding.optimizer=adam", "embedding.lr=1e-3", "embedding.capacity=200000"]
TABLES = {"static": [], "hash": HASH, "hash, ahead": [*HASH, "train.pipeline=sparse_dist"]}


def train(kind: str, steps: int, settings: list[str]) -> None:
    """One process: prints what it measured, a line a case."""
    device = open_device(world.local_device(kind))
    here = world.join(device)
    users = data()
    cases = itertools.product(TABLES.items(), ("ddp", "fsdp") if here.size > 1 else ("ddp",), ("each", "all"))
    for (table, chosen), parallel, of in cases:
        if of == "all" and (here.size == 1 or table != "static"):
            continue
        batch = EACH * here.size if of == "each" else EACH
        own = [*chosen, f"train.parallel={parallel}", f"train.batch={batch}", "train.log_every=100", *settings]
        rows = measure(config_of("article", "fused", 2, own), users, device, here, steps)
        if here.first:
            row = {"table": table, "parallel": parallel, "batch": batch, "of": of, **rows}
            print(json.dumps(row), flush=True)
    world.leave()


def measure(config: configs.Config, users: Any, device: torch.device, here: world.World, steps: int) -> dict[str, Any]:
    gc.collect()  # the trainer of the case before
    if device.type == "cuda":
        torch.cuda.empty_cache()
    trainer = Trainer(config, users, device, here)
    results = trainer.train_steps(trainer.loader().works(0, 10_000))
    losses = [next(results).loss for _ in range(WARM_UP)]
    seconds, tokens, work, phases = [], [], [], []
    for _ in range(steps):
        wait(here)
        begin = time.perf_counter()
        result = next(results)
        wait(here)
        seconds.append(time.perf_counter() - begin)
        phases.append(result.seconds)
        tokens.append(result.tokens)
        work.append(result.flops)
    begin = time.perf_counter()
    row = list(itertools.islice(results, steps))
    wait(here)
    in_a_row = time.perf_counter() - begin
    losses += [result.loss for result in row]
    trainer.close()
    peak, source = flops.peak(device, torch.bfloat16)
    low, middle, high = statistics.quantiles([t / s for t, s in zip(tokens, seconds)], n=4)
    return {
        "device": describe(device),
        "processes": here.size,
        "ms": 1e3 * statistics.median(seconds),
        "tokens_per_s": middle,
        "quartiles": [low, high],
        "tokens": statistics.mean(tokens),
        "mfu": statistics.median(w / s for w, s in zip(work, seconds)) / (peak * here.size),
        "peak": source,
        "host_ms": {name: 1e3 * statistics.median(each[name] for each in phases) for name in phases[0]},
        "in_a_row": {
            "ms": 1e3 * in_a_row / steps,
            "tokens_per_s": sum(result.tokens for result in row) / in_a_row,
            "mfu": sum(result.flops for result in row) / in_a_row / (peak * here.size),
        },
        "losses": losses,
    }


def wait(here: world.World) -> None:
    """For the slowest process and its device: a sum over all that is waited for."""
    here.barrier()
    if here.device.type == "cuda":
        torch.cuda.synchronize()


def launch(processes: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    argv = [
        sys.executable,
        "-m",
        "benchmarks.training_nccl",
        "--worker",
        "--steps",
        str(options.steps),
        "--device",
        options.device,
        "--set",
        *options.settings,
    ]
    # As many threads for each process as there are cores for it, whatever their number: torchrun would give them one.
    threads = max(1, len(os.sched_getaffinity(0)) // max(options.processes_at_most, processes))
    common = {"OMP_NUM_THREADS": str(threads), **os.environ}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.port + processes)}
    running = []
    for rank in range(processes):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)} if processes > 1 else {}
        running.append(subprocess.Popen(argv, env={**common, **place}, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=480)[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a process failed; its messages are above")
    return [json.loads(line) for line in said[0].splitlines() if line.startswith("{")]


def report(rows: list[dict[str, Any]], about: str) -> str:
    alone = {row["table"]: row for row in rows if row["processes"] == 1}
    lines = [
        "# Training on several GPUs",
        "",
        f"{about}. The article's configuration in bfloat16 over nccl, medians over the steps (quartiles); "
        "`python -m benchmarks.training_nccl`: its head says what is measured. `in a row`: steps of which only "
        "the last is waited for. Losses: the largest relative difference from one GPU's over the first "
        f"{COMPARED} steps, where the users of a step are the same.",
        "",
        "| GPUs | items | dense part | batch over all | ms a step | tokens/s | quartiles | to one GPU | MFU | "
        "in a row: ms | tokens/s | to one GPU | MFU | losses |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        low, high = r["quartiles"]
        one, row = alone.get(r["table"]), r["in_a_row"]
        ratio = f"{r['tokens_per_s'] / one['tokens_per_s']:.2f}" if one else ""
        row_ratio = f"{row['tokens_per_s'] / one['in_a_row']['tokens_per_s']:.2f}" if one else ""
        lines.append(
            f"| {r['processes']} | {r['table']} | {r['parallel'] if r['processes'] > 1 else 'whole'} | {r['batch']} | "
            f"{r['ms']:.1f} | {r['tokens_per_s']:,.0f} | {low:,.0f} to {high:,.0f} | {ratio} | "
            f"{100 * r['mfu']:.1f} % | {row['ms']:.1f} | {row['tokens_per_s']:,.0f} | {row_ratio} | "
            f"{100 * row['mfu']:.1f} % | {_difference(r, one)} |"
        )
    return "\n".join(lines) + "\n"


def _difference(row: dict[str, Any], one: dict[str, Any] | None) -> str:
    if one is None or row is one or row["batch"] != one["batch"]:
        return ""
    pairs = list(zip(row["losses"], one["losses"]))[:COMPARED]
    return f"{max(abs(a - b) / abs(b) for a, b in pairs):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--processes-at-most", type=int, default=8, help="among so many are the cores divided: the threads of a process"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=16, help="whole epochs: the users of all rows are the same")
    parser.add_argument("--port", type=int, default=29617)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE", help="of every case")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.device, options.steps, options.settings)
        return
    rows = [row for count in options.processes for row in launch(count, options)]
    text = report(rows, f"{rows[0]['device']}, torch {torch.__version__}")
    print(text)
    (options.out / "training-nccl.json").write_text(
        json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n"
    )
    (options.out / "training-nccl.md").write_text(text)


if __name__ == "__main__":
    main()
