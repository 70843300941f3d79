"""Settings of ML-100K retrieval compared on validation targets: python -m benchmarks.quality_search --out FILE

Each run holds out every user's last interaction (the test, never looked at here) and the five before it (the
validation targets: five times as many as users, so one standard error of HR@10 is about 0.006), trains on the rest, and
is evaluated with its weights and with their moving average. The runs go through a pool of processes; those that have
not begun at the deadline are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from gr_model import attention, data, presets  # noqa: E402
from gr_model import config as configs  # noqa: E402
from gr_model.device import open_device  # noqa: E402
from gr_model.trainer import Trainer  # noqa: E402

BASE = ("retrieval.validation=5", "train.ema=0.99")
CHOICES = {
    "model.dropout": ("0.2", "0.3", "0.4", "0.5"),
    "retrieval.temperature": ("0.05", "0.07", "0.1"),
    "retrieval.window": ("newest", "random"),
    "train.lr": ("1e-3", "2e-3", "4e-3"),
    "train.schedule": ("constant", "cosine"),
    "train.warmup": ("0", "80"),
    "train.weight_decay": ("0", "0.03", "0.3"),
    "model.time_buckets": ("128", "1"),
}
EVALUATE_AT = (200, 404, 606, 808)


def variants(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """The base, each setting changed alone, then random combinations."""
    rng = random.Random(seed)
    found = [()] * 3
    found += [(f"{name}={value}",) for name, values in CHOICES.items() for value in values[1:]]
    found += [("retrieval.negatives=1024",), ("train.ema=0.995",), ("train.beta2=0.999",)]
    while len(found) < count:
        found.append(tuple(f"{name}={rng.choice(values)}" for name, values in CHOICES.items()))
    return found[:count]


def run(job: tuple[int, tuple[str, ...], str, str, float]) -> dict[str, object] | None:
    index, settings, device_name, folder, deadline = job
    if time.time() > deadline:
        return None
    torch.set_num_threads(1)
    device = open_device(device_name)
    if device.type == "cuda":
        attention.QUERY_BLOCK = 1000  # few launches
    begin = time.time()
    chosen = configs.override(presets.get("ml-100k-retrieval"), [*BASE, f"train.seed={index}", *settings])
    trainer = Trainer(chosen, data.load(chosen.dataset, Path(folder)), device)
    curve = []
    while trainer.step < chosen.train.steps:
        loss = trainer.train_step().loss
        if trainer.step in EVALUATE_AT or trainer.step == chosen.train.steps:
            point = {"step": trainer.step, "loss": loss, "weights": trainer.task.evaluate(device)}
            curve.append(point | {"average": trainer.evaluate()})
    return {"settings": settings, "seed": index, "seconds": round(time.time() - begin, 1), "curve": curve}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=480, help="no run begins later")
    parser.add_argument("--data-dir", default=os.environ.get("GRSTACK_DATA", "data"))
    parser.add_argument("--jobs", type=Path, help="JSON list of lists of settings, in place of the built-in ones")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    chosen = json.loads(options.jobs.read_text()) if options.jobs else variants(options.runs)
    deadline = time.time() + options.seconds
    jobs = [(i, tuple(v), options.device, options.data_dir, deadline) for i, v in enumerate(chosen)]
    done = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap_unordered(run, jobs):
            if result is None:
                continue
            done.append(result)
            options.out.write_text(json.dumps(done))
            last = result["curve"][-1]
            print(f"{result['seconds']:6.1f} s  HR@10 {last['weights']['hr@10']:.4f} averaged "
                  f"{last['average']['hr@10']:.4f}  {' '.join(result['settings'])}", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
