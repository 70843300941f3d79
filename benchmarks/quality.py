"""ML-100K retrieval, trained and evaluated as the peer was: python -m benchmarks.quality [--seeds 0,1,2] [--models ...]

Each (model, seed) is one run of 808 steps on one thread; the last step is reported, the curve is only shown. The runs
are kept in benchmarks/results/quality-ml-100k.json (a run that is there is not repeated), from which the table
quality-ml-100k.md and the curves quality-ml-100k.html are made; --tables makes them and trains nothing. Settings were
chosen on validation targets by benchmarks/quality_search.py, never on the test. Popularity, also under other orders of
ratings of equal time, is computed with the runs.

--again makes all runs anew, on one device, and keeps nothing of the others: python -m benchmarks.quality --again
--workers 2, nine trainings of about 100 s of processor time each. Its runs are kept in quality-ml-100k.again.json until
all are there: the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model import data  # noqa: E402
from gr_model.common.files import write_text  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.data.interactions import Interactions  # noqa: E402
from gr_model.model import jagged  # noqa: E402
from gr_model.report import pages as report  # noqa: E402
from gr_model.runtime.device import keep_freed_memory, open_device  # noqa: E402
from gr_model.tasks import baselines  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "quality-ml-100k.json"
METRICS = ("hr@10", "ndcg@10", "hr@50", "ndcg@50", "mrr")
AGAIN = RESULTS.with_suffix(".again.json")
EVERY = 101
PEERS_SETTINGS = (
    "model.dropout=0.2",
    "retrieval.temperature=0.05",
    "train.lr=1e-3",
    "train.ema=0",
    "retrieval.share=1",
)
MODELS: dict[str, tuple[str, ...]] = {
    "HSTU": (),
    "SASRec": ("model.backbone=sasrec", "retrieval.temperature=0.05"),
    "HSTU, settings of the peer": PEERS_SETTINGS,
}
PEER = {"HSTU": (0.192, 0.0995), "SASRec": (0.189, 0.102), "popularity": (0.060, 0.032)}  # last epoch, docs/targets.md


def train(job: tuple[str, int, str, str]) -> dict[str, object]:
    model, seed, device_name, folder = job
    torch.set_num_threads(1)
    keep_freed_memory()
    device = open_device(device_name)
    fused = jagged.load_operators(device) == "gr_ops"
    settings = [*MODELS[model], f"train.seed={seed}", *(["model.attention=fused"] if fused else [])]
    config = configs.override(presets.get("ml-100k-retrieval"), settings)
    trainer = Trainer(config, data.load(config.dataset, Path(folder)), device)
    wall = processor = 0.0
    curve = []
    while trainer.step < config.train.steps:
        begin, begin_processor = time.monotonic(), time.process_time()
        loss = trainer.train_step().loss
        wall += time.monotonic() - begin
        processor += time.process_time() - begin_processor
        if trainer.step % EVERY == 0 or trainer.step == config.train.steps:
            curve.append({"step": trainer.step, "loss": loss, **trainer.evaluate()})
    return {
        "model": model,
        "seed": seed,
        "device": device_name,
        "settings": settings,
        "torch": torch.__version__,
        "machine": platform.processor() or platform.machine(),
        "attention": config.model.attention,
        "training seconds": round(wall, 1),
        "training processor seconds": round(processor, 1),
        "curve": curve,
    }


def popularity(interactions: Interactions) -> dict[str, dict[str, float]]:
    """By the order of ratings that one user gave within one second: nothing in the data says which came last."""
    rng = np.random.default_rng(0)
    orders = {
        "order of the file (ours)": lambda n, items: np.arange(n),
        "reversed": lambda n, items: -np.arange(n),
        "smallest item id first": lambda n, items: items,
        "largest item id first": lambda n, items: -items,
        **{f"at random, {i}": lambda n, items: rng.permutation(n) for i in range(3)},
    }
    out = {}
    for name, key in orders.items():
        users = tuple(user[np.lexsort((key(len(user), user.items), user.times))] for user in interactions.users)
        task = Trainer(presets.get("ml-100k-retrieval"), replace(interactions, users=users), torch.device("cpu")).task
        out[name] = baselines.popularity(task)
    return out


def table(runs: list[dict[str, object]], popular: dict[str, dict[str, float]], ties: int, users: int) -> str:
    ours = popular["order of the file (ours)"]
    lines = [
        "# Quality on ML-100K",
        "",
        f"Leave-last-out over {users} users, all 1,682 items are candidates but the (up to 200) of the input; ties of "
        "score count against the model; stable order by time, then file; the model never sees the time of the target. "
        "Dim 50, 2 blocks, 1 head, sequence 200, batch 128, 128 negatives, 808 steps. Last step, mean over the seeds "
        "± their standard deviation; one standard error of HR@10 from the users is 0.013.",
        "",
        "| model | seeds | " + " | ".join(name.upper() for name in METRICS) + " | training, s of processor |",
        "|---|---|" + "---|" * (len(METRICS) + 1),
    ]
    for model in MODELS:
        own = [run for run in runs if run["model"] == model]
        if not own:
            continue
        cells = []
        for name in METRICS:
            values = [run["curve"][-1][name] for run in own]
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.4f}{spread}")
        seconds = [run["training processor seconds"] for run in own if run["device"] == "cpu"]
        cost = f"{min(seconds):.0f} to {max(seconds):.0f}" if seconds else ""
        lines.append(f"| {model} | {', '.join(str(run['seed']) for run in own)} | {' | '.join(cells)} | {cost} |")
    lines.append(f"| popularity | | {' | '.join(f'{ours[name]:.4f}' for name in METRICS)} | |")
    lines += [
        "",
        "The peer (facebookresearch/generative-recommenders, same protocol and sizes, last epoch; it shows the "
        "model the target's own time): "
        + ", ".join(f"{m} {hr:.3f} / {ndcg:.4f}" for m, (hr, ndcg) in PEER.items())
        + " (HR@10 / NDCG@10).",
        "",
        "## Popularity and the order of ratings of equal time",
        "",
        f"{ties} of the {users} users gave their last two ratings within one second, so which one is the target is a "
        "matter of the tie-break, and popularity (no training, no chance) moves with it. The peer's 0.060 lies among "
        "those of arbitrary orders.",
        "",
        "| order | HR@10 | NDCG@10 | HR@50 |",
        "|---|---|---|---|",
        *(f"| {name} | {m['hr@10']:.4f} | {m['ndcg@10']:.4f} | {m['hr@50']:.4f} |" for name, m in popular.items()),
        "",
        "## Runs",
        "",
        "| model | seed | device | attention | HR@10 | NDCG@10 | wall s | processor s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        last = run["curve"][-1]
        lines.append(
            f"| {run['model']} | {run['seed']} | {run['device']}, torch {run['torch']} | {run['attention']} | "
            f"{last['hr@10']:.4f} | {last['ndcg@10']:.4f} | {run['training seconds']} | "
            f"{run['training processor seconds']} |"
        )
    return "\n".join(lines) + "\n"


def curves(runs: list[dict[str, object]], popular: dict[str, float]) -> str:
    charts = []
    for name in METRICS:
        series = [
            report.Series(model, [(step, statistics.mean(values)) for step, values in _by_step(runs, model, name)])
            for model in MODELS
        ]
        level = [(EVERY, popular[name]), (808, popular[name])]
        charts.append(report.chart(name.upper(), [*series, report.Series("popularity", level, dashed=True)]))
    body = f'<div class="cards">{"".join(charts)}</div>'
    return report.page("Quality on ML-100K", "Mean over the seeds, test targets; nothing was chosen on them.", body)


def _by_step(runs: list[dict[str, object]], model: str, name: str) -> list[tuple[int, list[float]]]:
    own = [run["curve"] for run in runs if run["model"] == model]
    return [(points[0]["step"], [point[name] for point in points]) for points in zip(*own)]


def popularity_of(interactions: Interactions) -> dict[str, Any]:
    users = [user for user in interactions.users if len(user) >= 3]
    ties = sum(int(user.times[-1] == user.times[-2]) for user in users)
    return {"popularity": popularity(interactions), "ties": ties, "users": len(users)}


def write(found: dict[str, Any]) -> None:
    """The results, and the pages that are made of them."""
    write_text(RESULTS, json.dumps(found, indent=1) + "\n")
    write_text(RESULTS.with_suffix(".md"), table(found["runs"], found["popularity"], found["ties"], found["users"]))
    write_text(RESULTS.with_suffix(".html"), curves(found["runs"], found["popularity"]["order of the file (ours)"]))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"runs": []}


def _fits(run: dict[str, object], device: str) -> bool:
    """Whether a run of an interrupted --again is one of this one."""
    return run["device"] == device and run["torch"] == torch.__version__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--data-dir", default=os.environ.get("GRSTACK_DATA", "data"))
    options = parser.parse_args()
    if options.tables:
        write(_read(RESULTS))
        return 0
    keep = AGAIN if options.again else RESULTS
    found = _read(keep)
    if options.again:
        found["runs"] = [run for run in found["runs"] if _fits(run, options.device)]
    wanted = [(model, int(seed)) for model in options.models for seed in options.seeds.split(",")]
    done = {(run["model"], run["seed"]) for run in found["runs"]}
    jobs = [(*pair, options.device, options.data_dir) for pair in wanted if pair not in done]
    found |= popularity_of(data.load("ml-100k", Path(options.data_dir)))
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap_unordered(train, jobs):
            found["runs"].append(result)
            found["runs"].sort(key=lambda run: (list(MODELS).index(run["model"]), run["seed"]))
            write_text(keep, json.dumps(found, indent=1) + "\n")
            last = result["curve"][-1]
            print(
                f"{result['model']} seed {result['seed']}: HR@10 {last['hr@10']:.4f} NDCG@10 {last['ndcg@10']:.4f} "
                f"{result['training processor seconds']} s of processor",
                flush=True,
            )
    if options.again:
        found["runs"] = [run for run in found["runs"] if (run["model"], run["seed"]) in wanted]
    write(found)
    if options.again:
        AGAIN.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
