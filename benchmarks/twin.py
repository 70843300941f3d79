"""What the emulated NPU costs beside the CPU, and whether it holds out: benchmarks/twin.py cost | robustness | sharded

Needs the twin: in the image, or by `python -m ascend_twin run python benchmarks/twin.py ...`.

cost: a training step of ML-100K's retrieval model (batch 128, sequence 200, AdamW) on one emulated NPU and on the CPU
in turn, in one process on one thread: processor time of all threads. Attention and jagged layouts are plain PyTorch on
both sides, so that every operator goes through the ATen override; the operators in Ascend C run on emulated cores,
whose time says nothing. Both sides draw the same numbers, and their losses are compared first.
Writes benchmarks/results/twin-cost.{json,md}.

robustness: 10,000 steps of a small model, and 200 jobs of which a rank is killed at a random moment; minutes.
Writes benchmarks/results/twin-robustness.{json,md}.

sharded: 10,000 steps of tables that torchrec shards by rows over two ranks, for TASK_QUEUE_ENABLE 0, 1 and 2; eight
minutes. Needs the patched torchrec. Writes benchmarks/results/twin-sharded.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
TARGET = 1.5
KILLS = 200


def machine() -> dict[str, Any]:
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {"cpu": cpu, "processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}


def cost(data_dir: Path, rounds: int) -> None:
    import torch

    from gr_model import config as configs
    from gr_model import data
    from gr_model.config import presets
    from gr_model.model import jagged
    from gr_model.runtime.device import describe, emulated, open_device
    from gr_model.training.trainer import Trainer

    torch.set_num_threads(1)
    jagged.load_operators = lambda device: "torch"  # plain PyTorch on both sides
    jagged.registered = lambda device: False
    config = configs.override(
        presets.get("ml-100k-retrieval"),
        ["train.deterministic=true", "model.attention=plain", "data.workers=0", f"train.steps={rounds}"],
    )
    interactions = data.load("ml-100k", data_dir)
    npu = open_device("npu")
    assert emulated(), "this is a real NPU"
    trainers = {"cpu": Trainer(config, interactions, torch.device("cpu")), "npu": Trainer(config, interactions, npu)}
    times: dict[str, list[float]] = {"cpu": [], "npu": []}
    clock: dict[str, list[float]] = {"cpu": [], "npu": []}
    losses: dict[str, list[float]] = {"cpu": [], "npu": []}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            begin, begin_clock = time.process_time(), time.perf_counter()
            losses[name].append(trainer.train_step().loss)
            torch.npu.synchronize()
            times[name].append(time.process_time() - begin)
            clock[name].append(time.perf_counter() - begin_clock)
    for a, b in zip(losses["cpu"], losses["npu"], strict=True):
        assert abs(a - b) <= 1e-5 * abs(a), (a, b)
    warm = min(3, rounds // 3)
    ratios = [n / c for n, c in zip(times["npu"][warm:], times["cpu"][warm:], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    found = {
        "machine": {**machine(), "torch": torch.__version__, "device": describe(npu)},
        "rounds": rounds - warm,
        "cpu_ms": round(1e3 * statistics.median(times["cpu"][warm:]), 1),
        "npu_ms": round(1e3 * statistics.median(times["npu"][warm:]), 1),
        "ratio": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "ratio_by_the_clock": round(sum(clock["npu"][warm:]) / sum(clock["cpu"][warm:]), 3),
        "target": TARGET,
        "loss": losses["npu"][-1],
    }
    about = found["machine"]
    cells = (found["cpu_ms"], found["npu_ms"], found["ratio"], f"{low:.3f} to {high:.3f}", found["ratio_by_the_clock"])
    text = f"""# The cost of the emulation

A training step of ML-100K's retrieval model on one emulated NPU beside the same step on the CPU, in turn in one process
on one thread; every operator through the ATen override. Losses equal to 1e-5 over {rounds} steps.
{about["cpu"]}, load {about["load"]}, torch {about["torch"]}; medians of {found["rounds"]} rounds of processor time.

| CPU ms | emulated NPU ms | ratio | quartiles | ratio by the clock | asked for |
|---|---|---|---|---|---|
| {" | ".join(map(str, cells))} | {TARGET} |
"""
    write("twin-cost", found, text)


def robustness() -> None:
    program = ROOT / "twin/tests/runtime/long_training.py"
    done = subprocess.run(
        [sys.executable, str(program), "10000"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    training = json.loads(done.stdout.splitlines()[-1])
    sys.path.insert(0, str(ROOT / "twin/tests/hccl"))
    from test_kills import kill_one

    with tempfile.TemporaryDirectory() as folder:
        kills = [kill_one(seed, Path(folder, str(seed))) for seed in range(1000, 1000 + KILLS)]
    left = [k for k in kills if k["shared"] or k["sockets"]]
    seconds = sorted(float(k["seconds"]) for k in kills)
    middle = statistics.median(seconds)
    found = {
        "machine": machine(),
        "training": training,
        "kills": {"jobs": KILLS, "left_something": len(left), "slowest_end_s": round(seconds[-1], 2)},
    }
    rows = "\n".join(
        f"| {s['step']} | {s['resident'] / 2**20:.1f} | {s['allocated'] / 2**20:.2f} | {s['reserved'] / 2**20:.1f} | "
        f"{s['descriptors']} | {s['threads']} |"
        for s in training["samples"]
    )
    text = f"""# Robustness of the emulation

{training["steps"]} steps of a small model (embedding bag, two layers, Adam, batches of changing length) on one emulated
NPU:

| step | process MiB | allocated MiB | reserved MiB | descriptors | threads |
|---|---|---|---|---|---|
{rows}

{KILLS} jobs of 2 to 4 ranks, over Unix sockets and TCP in turn, in which one rank was killed at a random moment: every
other rank ended and named the dead one, the slowest {seconds[-1]:.2f} s after the kill (median {middle:.2f} s, with
the end of its process); {len(left)} jobs left anything in shared memory or a socket behind.
"""
    write("twin-robustness", found, text)


def sharded(steps: int) -> None:
    program = ROOT / "recipes/torchrec/tests/long_sharded.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for queue in ("0", "1", "2"):
            done = subprocess.run(
                [sys.executable, str(program), str(steps), f"{folder}/log"],
                capture_output=True,
                text=True,
                check=True,
                env={**environment, "TASK_QUEUE_ENABLE": queue},
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
            print(f"TASK_QUEUE_ENABLE={queue}: {runs[-1]['seconds']} s", flush=True)
    rows = "\n".join(
        f"| {run['TASK_QUEUE_ENABLE']} | {rank} | {s['step']} | {s['loss']} | {s['resident'] / 2**20:.1f} | "
        f"{s['allocated'] / 2**20:.2f} | {s['reserved'] / 2**20:.1f} | {s['descriptors']} | {s['threads']} | "
        f"{s['shared']} |"
        for run in runs
        for rank, samples in enumerate(run["ranks"])
        for s in samples
    )
    text = f"""# A long sharded training on the emulation

{steps} steps of an embedding bag collection that torchrec shards by rows over two ranks with HCCL, for each
TASK_QUEUE_ENABLE; what each rank held on the way.

| queue | rank | step | loss | process MiB | allocated MiB | reserved MiB | descriptors | threads | files in /dev/shm |
|---|---|---|---|---|---|---|---|---|---|
{rows}
"""
    write("twin-sharded", {"machine": machine(), "runs": runs}, text)


def write(name: str, found: dict[str, Any], text: str) -> None:
    print(text)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cost", "robustness", "sharded"])
    parser.add_argument("--data-dir", type=Path, default=ROOT / "data", help="holds ml-100k, by inv fetch-data")
    parser.add_argument("--rounds", type=int, default=23)
    parser.add_argument("--steps", type=int, default=10_000, help="of sharded")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.what == "cost":
        cost(options.data_dir, options.rounds)
    elif options.what == "robustness":
        robustness()
    else:
        sharded(options.steps)


if __name__ == "__main__":
    main()
