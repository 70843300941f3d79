"""model.compile on a GPU: a training step with compiled parts beside the same step without, same batches, in turn.

    python -m benchmarks.compiled_cuda [--steps 12]

The article's benchmark and the deep model of benchmarks.training_device, which waits for kernels, and ML-100K's, which
waits for the host that launches them. Wall clock, the device waited for after each step. Writes
benchmarks/results/compile-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from gr_model import config as configs
from gr_model.config import Config, presets
from gr_model.data.interactions import Interactions
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

from .compiled import like_ml_100k
from .training_device import RESULTS, config_of, data


def small(settings: list[str]) -> Config:
    return configs.override(presets.get("ml-100k-retrieval"), ["model.attention=fused", *settings])


def measured(base: Config, users: Interactions, device: torch.device, steps: int) -> dict[str, Any]:
    torch._dynamo.reset()
    counters.clear()
    runs = {
        kind: Trainer(configs.override(base, [f"model.compile={kind == 'compiled'}"]), users, device)
        for kind in ("eager", "compiled")
    }
    works = {kind: iter(run.loader().works(0, 10_000)) for kind, run in runs.items()}
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    first, apart = 0.0, 0.0
    for turn in range(steps + 3):
        losses = []
        for kind, run in runs.items():
            work = next(works[kind])
            begin = time.perf_counter()
            losses.append(run.train_step(work).loss)
            torch.cuda.synchronize()
            spent = time.perf_counter() - begin
            if turn >= 3:
                seconds[kind].append(spent)
            elif kind == "compiled":
                first += spent
        apart = max(apart, abs(losses[1] - losses[0]) / abs(losses[0])) if turn == 0 else apart
    ratios = [eager / compiled for eager, compiled in zip(seconds["eager"], seconds["compiled"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "eager ms": 1e3 * statistics.median(seconds["eager"]),
        "compiled ms": 1e3 * statistics.median(seconds["compiled"]),
        "eager / compiled": middle,
        "quartiles": [low, high],
        "first steps s": first,
        "compilations": counters["stats"]["unique_graphs"],
        "the first loss differs by": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = open_device("cuda")
    name = torch.cuda.get_device_name(device)
    long, short = data(), like_ml_100k()
    models = {
        "article, bf16": (config_of("article", "fused", 2, []), long),
        "deep, bf16": (config_of("deep", "fused", 2, []), long),
        "ML-100K retrieval, fp32": (small([]), short),
        "ML-100K retrieval, bf16": (small(["train.precision=bf16"]), short),
    }
    lines = [
        "# model.compile on a GPU",
        "",
        f"{name}, torch {torch.__version__}; {options.steps} steps of each in turn, wall clock, median (quartiles of "
        "the ratio). `python -m benchmarks.compiled_cuda`.",
        "",
        "| model | eager ms | compiled ms | eager / compiled | first 3 steps s | compilations "
        "| first loss differs by |",
        "|---|---|---|---|---|---|---|",
    ]
    found = {}
    for model, (config, users) in models.items():
        found[model] = m = measured(config, users, device, options.steps)
        low, high = m["quartiles"]
        lines.append(
            f"| {model} | {m['eager ms']:.1f} | {m['compiled ms']:.1f} | {m['eager / compiled']:.2f} ({low:.2f} to "
            f"{high:.2f}) | {m['first steps s']:.1f} | {m['compilations']} | {m['the first loss differs by']:.1e} |"
        )
        print(lines[-1], flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        file = options.out / f"compile-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
        about = {"device": name, "torch": torch.__version__, "models": found}
        file.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
        file.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
