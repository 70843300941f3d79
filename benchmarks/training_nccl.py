"""Training on several GPUs over nccl, one process each: python -m benchmarks.training_nccl [--processes 1 2]

The article's configuration (benchmarks/training_device.py: 3 layers, 4 heads of 128, sequences to 8000, bfloat16), with
DDP and with FSDP: a batch of 32 for each process, and a batch of 32 over all of them. Whole steps by the wall clock,
data loading included, each waited for; tokens of all processes over the seconds of the slowest.
Writes benchmarks/results/training-nccl.{json,md}.
"""

from __future__ import annotations

import argparse
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

WARM_UP, EACH = 3, 32


def train(kind: str, steps: int, settings: list[str]) -> None:
    """One process: prints what it measured, a line a case."""
    device = open_device(world.local_device(kind))
    here = world.join(device)
    users = data()
    for parallel in ("ddp", "fsdp") if here.size > 1 else ("ddp",):
        for name, batch in {"each": EACH * here.size, "all": EACH}.items():
            if here.size == 1 and name == "all":
                continue
            config = config_of("article", "fused", 2, [f"train.parallel={parallel}", f"train.batch={batch}", *settings])
            rows = measure(config, users, device, here, steps)
            if here.first:
                print(json.dumps({"parallel": parallel, "batch": config.train.batch, "of": name, **rows}), flush=True)
    world.leave()


def measure(config: configs.Config, users: Any, device: torch.device, here: world.World, steps: int) -> dict[str, Any]:
    trainer = Trainer(config, users, device, here)
    works = iter(trainer.loader().works(0, 10_000))
    seconds, tokens, work, losses = [], [], [], []
    for step in range(WARM_UP + steps):
        here.barrier()
        begin = time.perf_counter()
        result = trainer.train_step(next(works))
        here.barrier()  # of the slowest: a sum over all that is waited for
        if device.type == "cuda":
            torch.cuda.synchronize()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - begin)
            tokens.append(result.tokens)
            work.append(result.flops)
        losses.append(result.loss)
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
        "losses": losses,
    }


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
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.port + processes)}
    running = []
    for rank in range(processes):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)} if processes > 1 else {}
        running.append(subprocess.Popen(argv, env={**common, **place}, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=480)[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a process failed; its messages are above")
    return [json.loads(line) for line in said[0].splitlines() if line.startswith("{")]


def report(rows: list[dict[str, Any]], about: str) -> str:
    alone = next((row for row in rows if row["processes"] == 1), None)
    lines = [
        "# Training on several GPUs",
        "",
        f"{about}. The article's configuration in bfloat16 over nccl, medians over the steps (quartiles); "
        "`python -m benchmarks.training_nccl`: its head says what is measured.",
        "",
        "| GPUs | dense part | batch over all | ms a step | tokens/s | quartiles | to one GPU | MFU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        low, high = r["quartiles"]
        ratio = f"{r['tokens_per_s'] / alone['tokens_per_s']:.2f}" if alone else ""
        lines.append(
            f"| {r['processes']} | {r['parallel'] if r['processes'] > 1 else 'whole'} | {r['batch']} | "
            f"{r['ms']:.1f} | {r['tokens_per_s']:,.0f} | {low:,.0f} to {high:,.0f} | {ratio} | "
            f"{100 * r['mfu']:.1f} % |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=15)
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
