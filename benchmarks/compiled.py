"""model.compile on a CPU: a training step with compiled parts beside the same step without, same batches, in turn.

    python -m benchmarks.compiled [--steps 30]

Processor time of one thread, which other work on the machine hardly changes; the batches of one epoch differ in shape,
so a compilation for each would show. Writes benchmarks/results/compile-cpu.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.data.interactions import Interactions, by_user  # noqa: E402
from gr_model.runtime.device import keep_freed_memory  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
USERS, ITEMS = 943, 1682
MODELS = {
    "retrieval, dim 50, 2 blocks": ("ml-100k-retrieval", []),
    "retrieval, dim 256, 4 blocks, 4 heads": (
        "ml-100k-retrieval",
        ["model.dim=256", "model.blocks=4", "model.heads=4", "model.qk_dim=64", "model.value_dim=64", "train.batch=32"],
    ),
    "ranking, dim 50, mixture of 4 experts": (
        "ml-100k-ranking",
        ["model.contextual=", "ranking.head=mmoe", "train.batch=64"],
    ),
}


def like_ml_100k() -> Interactions:
    """Users with as many interactions as those of ML-100K, at random."""
    rng = np.random.default_rng(0)
    counts = np.clip(rng.lognormal(4.2, 1.0, USERS), 20, 700).astype(int)
    total = int(counts.sum())
    return Interactions(
        name="random",
        users=by_user(
            user=np.repeat(np.arange(USERS), counts),
            item=rng.integers(0, ITEMS, total),
            action=rng.integers(0, 5, total),
            time=rng.integers(10**9, 10**9 + 10**7, total),
            features=np.zeros((USERS, 0), np.int64),
        ),
        items=ITEMS,
        action_values=(1.0, 2.0, 3.0, 4.0, 5.0),
        feature_sizes={},
    )


def measured(preset: str, settings: list[str], data: Interactions, steps: int) -> dict[str, float]:
    base = configs.override(presets.get(preset), [*settings, "data.workers=0"])
    runs = {
        kind: Trainer(configs.override(base, [f"model.compile={kind == 'compiled'}"]), data, torch.device("cpu"))
        for kind in ("eager", "compiled")
    }
    torch._dynamo.reset()
    counters.clear()
    begin = time.process_time()
    runs["compiled"].train_step()
    first = time.process_time() - begin
    runs["eager"].train_step()
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    apart = 0.0
    for _ in range(steps):
        losses = []
        for kind, run in runs.items():
            begin = time.thread_time()
            losses.append(run.train_step().loss)
            seconds[kind].append(time.thread_time() - begin)
        apart = max(apart, abs(losses[1] - losses[0]) / abs(losses[0]))
    ratios = [eager / compiled for eager, compiled in zip(seconds["eager"], seconds["compiled"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "eager s": statistics.median(seconds["eager"]),
        "compiled s": statistics.median(seconds["compiled"]),
        "eager / compiled": middle,
        "quartiles": [low, high],
        "first step s": first,
        "compilations": counters["stats"]["unique_graphs"],
        "largest relative difference of a loss": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    data = like_ml_100k()
    found = {name: measured(*case, data, options.steps) for name, case in MODELS.items()}
    machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__, "threads": 1}
    (RESULTS / "compile-cpu.json").write_text(json.dumps({**machine, "models": found}, indent=1) + "\n")
    lines = [
        "# model.compile on a CPU",
        "",
        f"One thread ({machine['processor']}), torch {machine['torch']}; {options.steps} steps of each in turn, "
        "processor time, median (quartiles of the ratio).",
        "",
        "| model | eager s | compiled s | eager / compiled | first step s | compilations | loss differs by |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, m in found.items():
        low, high = m["quartiles"]
        lines.append(
            f"| {name} | {m['eager s']:.3f} | {m['compiled s']:.3f} | {m['eager / compiled']:.2f} "
            f"({low:.2f} to {high:.2f}) | {m['first step s']:.1f} | {m['compilations']} | "
            f"{m['largest relative difference of a loss']:.1e} |"
        )
    (RESULTS / "compile-cpu.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
