"""Settings of ML-100K retrieval compared on validation targets, the same ones for HSTU and SASRec.

    python -m benchmarks.quality_search [--device cuda --workers 16 --seconds S]

Each run holds out every user's last interaction (the test, never looked at here) and the five before it (the
validation targets, five times as many as users), trains on the rest, and is evaluated with the averaged weights.

1. Both models are trained once with each of the settings of `listed`, the same for both, so that neither has more
   choices than the other. A setting counts if both models were trained with it. First come those around KNOWN, the
   best of an earlier search of this kind for HSTU and for SASRec alike, with 2 and with 4 blocks: that search had 2
   only, and depth is what the published HSTU grows by. Then those of NEUTRAL, then random ones.
2. The BEST settings of each model, by NDCG@10, are trained longer with other seeds. A seed counts if all of them were.
3. Chosen, for each model: the settings and the number of steps with the largest NDCG@10, the mean over those seeds.

Runs are kept in benchmarks/results/quality-search.json, and a run that is there is not repeated; --seconds bounds the
time in which runs begin, FIRST of it for the first part. --tables only makes quality-search.md. Many processes share a
GPU best with CUDA's MPS (nvidia-cuda-mps-control -d).
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gr_model.common.files import write_text

from . import quality_run

RESULTS = Path(__file__).parent / "results" / "quality-search.json"
MODELS: dict[str, tuple[str, ...]] = {"HSTU": (), "SASRec": ("model.backbone=sasrec",)}
CHOICES: dict[str, tuple[str, ...]] = {
    "model.blocks": ("2", "4"),
    "model.dropout": ("0.3", "0.4", "0.5", "0.6"),
    "retrieval.temperature": ("0.05", "0.1", "0.15", "0.2", "0.3"),
    "train.lr": ("1e-3", "2e-3", "4e-3"),
    "train.warmup": ("0", "80"),
    "train.weight_decay": ("0", "0.03", "0.3"),
    "train.ema": ("0.99", "0.995"),
    "model.timestamps": ("", "gap", "gap,hour,weekday"),
    "model.contextual": ("", "gender,age,occupation"),
    "retrieval.negatives": ("128", "128", "512"),
    "retrieval.in_batch": ("0", "0", "64"),
    "retrieval.window": ("newest", "random"),
}
NEUTRAL = {
    "model.blocks": "2",
    "model.dropout": "0.4",
    "train.lr": "2e-3",
    "train.warmup": "0",
    "train.weight_decay": "0",
    "train.ema": "0.99",
    "model.timestamps": "",
    "model.contextual": "",
    "retrieval.negatives": "128",
    "retrieval.in_batch": "0",
    "retrieval.window": "newest",
}
KNOWN = NEUTRAL | {
    "model.dropout": "0.3",
    "retrieval.temperature": "0.15",
    "train.lr": "4e-3",
    "train.warmup": "80",
    "train.ema": "0.995",
    "model.timestamps": "gap,hour,weekday",
    "model.contextual": "gender,age,occupation",
    "retrieval.negatives": "512",
    "retrieval.window": "random",
}
DEPTHS, DROPOUTS, RATES = ("2", "4"), ("0.3", "0.4"), ("4e-3", "2e-3")
SHORT, LONG = (404, 808), tuple(range(202, 1415, 202))  # 8 steps show every user once
BEST, SEEDS, MOST, FIRST = 2, (1, 2, 3), 40, 0.3
METRIC = "ndcg@10"
Settings = tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    settings: Settings
    steps: int
    value: float


def listed(count: int, seed: int = 0) -> list[Settings]:
    """Around KNOWN, the shallow ones first; then NEUTRAL with two temperatures, and random ones."""
    rng = random.Random(seed)
    found = [
        KNOWN | {"model.blocks": blocks, "model.dropout": dropout, "train.lr": rate}
        for blocks, rate, dropout in itertools.product(DEPTHS, RATES, DROPOUTS)
    ]
    found += [NEUTRAL | {"retrieval.temperature": "0.15"}, NEUTRAL | {"retrieval.temperature": "0.05"}]
    while len(found) < count:
        found.append({name: rng.choice(values) for name, values in CHOICES.items()})
    return [tuple(f"{name}={settings[name]}" for name in CHOICES) for settings in found]


def search(workers: quality_run.Pool, device: str, folder: str, seconds: float, path: Path = RESULTS) -> None:
    found, begin = quality_run.read(path), time.time()

    def job(stage: str, model: str, settings: Settings, seed: int, at: Sequence[int], until: float) -> quality_run.Job:
        return quality_run.Job(
            stage, model, (*MODELS[model], *settings), seed, tuple(at), device, folder, begin + until * seconds
        )

    first = [job("first", model, s, 0, SHORT, FIRST) for s in listed(MOST) for model in MODELS]
    for run in quality_run.finish(workers, first, path, found):
        print(_line(run), flush=True)
    second = [
        job("second", model, settings, seed, LONG, 1.0)
        for seed in SEEDS
        for place in range(BEST)
        for model in MODELS
        for settings in [best(found["runs"], model)[place]]
    ]
    for run in quality_run.finish(workers, second, path, found):
        print(_line(run), flush=True)
    write_text(path.with_suffix(".md"), report(found["runs"]))


def best(runs: Sequence[quality_run.Run], model: str) -> list[Settings]:
    """Settings of the first part, the best first, by their best evaluation."""
    of = {(run["model"], _own(run)): run for run in runs if run["stage"] == "first"}
    both = [settings for settings in listed(MOST) if all((name, settings) in of for name in MODELS)]
    return sorted(both, key=lambda settings: -max(point[METRIC] for point in of[model, settings]["curve"]))


def ahead(runs: Sequence[quality_run.Run]) -> list[bool]:
    """For each of the settings of the first part whether HSTU came out before SASRec at its end."""
    last = {(run["model"], _own(run)): run["curve"][-1][METRIC] for run in runs if run["stage"] == "first"}
    return [last["HSTU", settings] > last["SASRec", settings] for settings in best(runs, "HSTU")]


def seeds_of(runs: Sequence[quality_run.Run]) -> list[int]:
    """The seeds of the second part with which all of both models' settings were trained."""
    done = [run["seed"] for run in runs if run["stage"] == "second"]
    return [seed for seed in SEEDS if done.count(seed) == BEST * len(MODELS)]


def curves(runs: Sequence[quality_run.Run], model: str) -> dict[Settings, dict[int, float]]:
    """Of the second part, by settings and step: the mean over the seeds."""
    seeds, values = seeds_of(runs), {}
    for run in runs:
        if run["stage"] == "second" and run["model"] == model and run["seed"] in seeds:
            for point in run["curve"]:
                values.setdefault(_own(run), {}).setdefault(point["step"], []).append(point[METRIC])
    return {s: {step: statistics.mean(v) for step, v in by_step.items()} for s, by_step in values.items()}


def chosen(runs: Sequence[quality_run.Run], model: str) -> Choice:
    means = curves(runs, model)
    if not means:
        raise SystemExit(f"{RESULTS}: no seed of the second part is complete; run benchmarks.quality_search again")
    value, settings, steps = max((v, s, step) for s, by_step in means.items() for step, v in by_step.items())
    return Choice(settings, steps, value)


def _own(run: quality_run.Run) -> Settings:
    """Without those that make it this model."""
    return tuple(run["settings"][len(MODELS[run["model"]]) :])


def named(settings: Settings) -> str:
    """What differs from the neutral ones, in words."""
    pairs = [setting.split("=") for setting in settings]
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in pairs if NEUTRAL.get(name) != value)


def _line(run: quality_run.Run) -> str:
    values = " ".join(f"{point[METRIC]:.4f}" for point in run["curve"])
    return f"{run['stage']} {run['model']:6} {run['seconds']:6.1f} s  {values}  {named(_own(run))}"


def report(runs: Sequence[quality_run.Run]) -> str:
    first, where = best(runs, "HSTU"), sorted({f"{run['device']}, torch {run['torch']}" for run in runs})
    lines = [
        "# Settings of ML-100K retrieval, compared on validation targets",
        "",
        "`python -m benchmarks.quality_search`; its head says how. The five interactions before each user's last are "
        "the targets (4,715; one standard error of HR@10 from the users is about 0.006). "
        f"{len(first)} settings, the same for both models, {SHORT[-1]} steps; then the {BEST} best of each model "
        f"{LONG[-1]} steps with {len(seeds_of(runs))} other seeds. On {'; '.join(where)}. What is not named: 2 blocks, "
        "dropout 0.4, lr 2e-3, no warm-up, no weight decay, average 0.99, no time encodings, no user features, 128 "
        "negatives (64 tokens share them), none from the batch, newest window.",
        "",
        "## Chosen",
        "",
        "| model | settings | steps | NDCG@10 |",
        "|---|---|---|---|",
    ]
    for model in MODELS:
        choice = chosen(runs, model)
        lines.append(f"| {model} | {named(choice.settings)} | {choice.steps} | {choice.value:.4f} |")
    lines += ["", "## The best, longer: NDCG@10, mean over the seeds, by step", ""]
    lines += [f"| model | settings | {' | '.join(map(str, LONG))} |", "|---|---|" + "---|" * len(LONG)]
    for model in MODELS:
        for settings, by_step in curves(runs, model).items():
            cells = " | ".join(f"{by_step[step]:.4f}" for step in LONG)
            lines.append(f"| {model} | {named(settings)} | {cells} |")
    of = {(run["model"], _own(run)): run["curve"] for run in runs if run["stage"] == "first"}
    lines += ["", f"## All settings: NDCG@10 after {' and '.join(map(str, SHORT))} steps, one seed", ""]
    lines += ["| settings | HSTU | SASRec |", "|---|---|---|"]
    for settings in first:
        cells = [", ".join(f"{point[METRIC]:.4f}" for point in of[model, settings]) for model in MODELS]
        lines.append(f"| {named(settings)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=4 * 3600)
    parser.add_argument("--data-dir", default=os.environ.get("GRSTACK_DATA", "data"))
    parser.add_argument("--again", action="store_true", help="forget the runs that are there")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    options = parser.parse_args()
    if options.tables:
        write_text(RESULTS.with_suffix(".md"), report(quality_run.read(RESULTS)["runs"]))
        return 0
    if options.again:
        RESULTS.unlink(missing_ok=True)
    with quality_run.pool(options.workers) as workers:
        search(workers, options.device, options.data_dir, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
