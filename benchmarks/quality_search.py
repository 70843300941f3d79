"""Settings of ML-100K retrieval compared on validation targets: python -m benchmarks.quality_search --batch 1

Each run holds out every user's last interaction (the test, never looked at here) and the five before it (the
validation targets: five times as many as users, so one standard error of HR@10 is about 0.006), trains on the rest, and
is evaluated with its weights and with their moving average. The runs go through a pool of processes; those that have
not begun at the deadline are left out. Runs are kept in benchmarks/results/quality-search.json, where one of the same
batch and seed is replaced; --tables only makes quality-search.md from them.
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
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model import data  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.model.attention import plain  # noqa: E402
from gr_model.runtime.device import open_device  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "quality-search.json"
BASE = (
    "retrieval.validation=5",
    "model.dropout=0.2",
    "retrieval.temperature=0.05",
    "train.lr=1e-3",
    "train.ema=0.99",
)
SHARE = {"1": "retrieval.share=1", "2": "retrieval.share=64"}  # by batch: whose negatives a token has
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
LR, SASREC = "train.lr=2e-3", "model.backbone=sasrec"
FAST = ("train.lr=4e-3", "train.warmup=80")
SECOND = (  # after the first batch: around its best ones
    *(
        (f"model.dropout={d}", f"retrieval.temperature={t}", *more)
        for d, t, more in (
            ("0.4", "0.1", (LR,)),
            ("0.4", "0.1", (LR, "retrieval.in_batch=16")),
            ("0.4", "0.1", (LR, "retrieval.in_batch=64")),
            ("0.4", "0.1", (LR, "retrieval.negatives=512")),
            ("0.4", "0.15", (LR,)),
            ("0.5", "0.1", (LR,)),
            ("0.4", "0.1", FAST),
            ("0.5", "0.15", FAST),
            ("0.4", "0.1", (*FAST, "train.schedule=cosine")),
            ("0.4", "0.2", FAST),
        )
    ),
    (SASREC,),
    *(
        (SASREC, f"model.dropout={d}", f"retrieval.temperature={t}", *more)
        for d, t, more in (
            ("0.4", "0.1", (LR,)),
            ("0.4", "0.05", (LR,)),
            ("0.2", "0.1", (LR,)),
            ("0.4", "0.1", FAST),
        )
    ),
)
EVALUATE_AT = (200, 404, 606, 808)
ABOUT = """# Settings of ML-100K retrieval, compared on validation targets

benchmarks/quality_search.py: every user's last interaction (the test) is left aside, the five before it are the \
targets (4,715; one standard error of HR@10 is about 0.006), training on what is before those. 808 steps, evaluated \
with the moving average of the weights. What is not named is: dropout 0.2, temperature 0.05, learning rate 1e-3 \
constant, no weight decay, newest window, average 0.99, 128 negatives. In the first batch each token had negatives of \
its own, in the second 64 tokens share them. PyTorch 2.11 on one H100 (first batch) and on its host's processors \
(second).
"""


def variants(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """The base, each setting changed alone, then random combinations."""
    rng = random.Random(seed)
    found = [()] * 3
    found += [(f"{name}={value}",) for name, values in CHOICES.items() for value in values[1:]]
    found += [("retrieval.negatives=1024",), ("train.ema=0.995",), ("train.beta2=0.999",)]
    while len(found) < count:
        found.append(tuple(f"{name}={rng.choice(values)}" for name, values in CHOICES.items()))
    return found[:count]


def run(job: tuple[int, tuple[str, ...], str, str, str, float]) -> dict[str, object] | None:
    index, settings, batch, device_name, folder, deadline = job
    if time.time() > deadline:
        return None
    torch.set_num_threads(1)
    device = open_device(device_name)
    if device.type == "cuda":
        plain.QUERY_BLOCK = 1000  # few launches
    begin = time.time()
    chosen = configs.override(presets.get("ml-100k-retrieval"), [*BASE, SHARE[batch], f"train.seed={index}", *settings])
    trainer = Trainer(chosen, data.load(chosen.dataset, Path(folder)), device)
    curve = []
    while trainer.step < chosen.train.steps:
        loss = trainer.train_step().loss
        if trainer.step in EVALUATE_AT or trainer.step == chosen.train.steps:
            point = {"step": trainer.step, "loss": round(loss, 5), "weights": _rounded(trainer.task.evaluate(device))}
            curve.append(point | {"average": _rounded(trainer.evaluate())})
    changed = dict(setting.split("=") for setting in settings)
    seconds = round(time.time() - begin, 1)
    return {"batch": batch, "settings": changed, "seed": index, "seconds": seconds, "curve": curve}


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in metrics.items()}


def report(runs: list[dict[str, Any]]) -> str:
    by_ndcg = sorted(runs, key=lambda run: -run["curve"][-1]["average"]["ndcg@10"])
    hstu, sasrec = (
        next(run for run in by_ndcg if (run["settings"].get("model.backbone") == "sasrec") == other)
        for other in (False, True)
    )
    lines = [
        ABOUT,
        f"Chosen: {_named(hstu)} (HSTU); {_named(sasrec)}, each with the largest NDCG@10 of its kind.",
        "",
        "| batch | settings | HR@10 | NDCG@10 | HR@50 | MRR | HR@10 after 200 steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in by_ndcg:
        last = run["curve"][-1]["average"]
        cells = [f"{last[name]:.4f}" for name in ("hr@10", "ndcg@10", "hr@50", "mrr")]
        early = run["curve"][0]["average"]["hr@10"]
        lines.append(f"| {run['batch']} | {_named(run)} | {' | '.join(cells)} | {early:.4f} |")
    return "\n".join(lines) + "\n"


def _named(run: dict[str, Any]) -> str:
    named = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in run["settings"].items())
    return named or "none changed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=480, help="no run begins later")
    parser.add_argument("--data-dir", default=os.environ.get("GRSTACK_DATA", "data"))
    parser.add_argument("--batch", choices=list(SHARE), default="1")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    options = parser.parse_args()
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    if options.tables:
        RESULTS.with_suffix(".md").write_text(report(done))
        return 0
    chosen = variants(options.runs) if options.batch == "1" else SECOND[: options.runs]
    deadline = time.time() + options.seconds
    jobs = [(i, v, options.batch, options.device, options.data_dir, deadline) for i, v in enumerate(chosen)]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap_unordered(run, jobs):
            if result is None:
                continue
            done = [run for run in done if (run["batch"], run["seed"]) != (result["batch"], result["seed"])] + [result]
            RESULTS.write_text(json.dumps(done, indent=1) + "\n")
            RESULTS.with_suffix(".md").write_text(report(done))
            last = result["curve"][-1]
            print(
                f"{result['seconds']:6.1f} s  HR@10 {last['weights']['hr@10']:.4f} averaged "
                f"{last['average']['hr@10']:.4f}  {_named(result)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
