"""HSTU on data whose best possible result is known: python -m benchmarks.planted [--runs NAME ...] [key=value ...]

"sequences": NDCG@10 of the next item beside that of the rule that drew it (gr_model.data.synthetic.Planted, which
integrates the unknown genre out), same candidates, same mask. "actions": AUC of eight signals beside that of the true
probabilities. Each on three seeds of data and model; writes benchmarks/results/planted.{json,md}. A run of the same
kind, seed and settings that the file holds is not repeated unless --again; --tables only makes the .md of the .json.
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
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model.config import Config, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig  # noqa: E402
from gr_model.data import synthetic  # noqa: E402
from gr_model.runtime.device import keep_freed_memory  # noqa: E402
from gr_model.tasks import evaluation, metrics  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "planted.json"
CPU, USERS = torch.device("cpu"), 5000
TRAIN = TrainConfig(batch=100, steps=900, lr=3e-3, warmup=50, schedule="cosine", ema=0.99)
SEQUENCES = Config(
    task="retrieval",
    model=ModelConfig(dim=64, heads=2, qk_dim=32, value_dim=32, max_items=40, dropout=0.1),
    retrieval=RetrievalConfig(temperature=0.1, share=40),
    train=TRAIN,
)
ACTIONS = Config(
    task="ranking",
    model=ModelConfig(
        dim=32, qk_dim=32, value_dim=32, max_items=40, dropout=0.1, interleave=True, contextual=("segment",)
    ),
    ranking=RankingConfig(tasks=synthetic.TASKS, held_out=5, head="mmoe"),
    train=TRAIN,
)


def sequences(seed: int, settings: list[str]) -> dict[str, float]:
    data, rule = synthetic.sequences(users=USERS, seed=seed)
    trainer = Trainer(configs.override(SEQUENCES, [f"train.seed={seed}", *settings]), data, CPU)
    scores_IV = torch.from_numpy(np.stack([rule.next_item(user.items[:-1]) for user in trainer.task.users]))
    task, everything = trainer.task, [torch.eye(data.items, dtype=torch.float64)]
    ranks = evaluation.target_ranks(scores_IV, everything, task.targets(task.users), *task.seen(task.users))
    _train(trainer)
    return {"ndcg@10": trainer.evaluate()["ndcg@10"], "oracle": metrics.of_ranks(ranks)["ndcg@10"]}


def actions(seed: int, settings: list[str]) -> dict[str, float]:
    data, rule = synthetic.actions(users=USERS, seed=seed)
    trainer = Trainer(configs.override(ACTIONS, [f"train.seed={seed}", *settings]), data, CPU)
    held_out = trainer.config.ranking.held_out
    chance = np.concatenate([rule.probabilities(user)[-held_out:] for user in trainer.task.users])
    action = np.concatenate([user.actions[-held_out:] for user in trainer.task.users])
    _train(trainer)
    reached = trainer.evaluate()
    out = {}
    for t, name in enumerate(synthetic.TASKS):
        out[name] = reached[f"auc/{name}"]
        out[f"bayes {name}"] = metrics.auc(chance[:, t], data.tasks[name][action])
    return out


def _train(trainer: Trainer) -> None:
    while trainer.step < trainer.config.train.steps:
        trainer.train_step()


KINDS = {"sequences": sequences, "actions": actions}


def run(job: tuple[str, int, list[str]]) -> dict[str, object]:
    name, seed, settings = job
    torch.set_num_threads(1)
    keep_freed_memory()
    begin = time.process_time()
    found = KINDS[name](seed, settings)
    seconds = round(time.process_time() - begin, 1)
    where = {"machine": platform.machine(), "torch": torch.__version__}
    return {"run": name, "seed": seed, "settings": settings, "processor seconds": seconds, **where, **found}


def _job(run: dict[str, object]) -> tuple[object, object, object]:
    return run["run"], run["seed"], run["settings"]


def report(runs: list[dict[str, object]]) -> str:
    where = sorted({f"one thread of a CPU ({run['machine']}), torch {run['torch']}" for run in runs})
    lines = [
        "# Planted rules",
        "",
        f"On {'; '.join(where)}; {USERS:,} users of 40 interactions.",
        "",
        "| data | seed | HSTU NDCG@10 | oracle's NDCG@10 | ratio | processor s |",
        "|---|---|---|---|---|---|",
    ]
    for r in (r for r in runs if r["run"] == "sequences"):
        lines.append(
            f"| sequences | {r['seed']} | {r['ndcg@10']:.4f} | {r['oracle']:.4f} | "
            f"{r['ndcg@10'] / r['oracle']:.3f} | {r['processor seconds']} |"
        )
    lines += ["", "| actions, mean of the seeds | HSTU AUC | Bayes AUC | difference |", "|---|---|---|---|"]
    own = [r for r in runs if r["run"] == "actions"]
    for name in synthetic.TASKS if own else ():
        ours, best = (statistics.mean(r[key] for r in own) for key in (name, f"bayes {name}"))
        lines.append(f"| {name} | {ours:.4f} | {best:.4f} | {best - ours:.4f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("settings", nargs="*", metavar="key=value")
    options = parser.parse_args()
    jobs = [(name, int(seed), options.settings) for name in options.runs for seed in options.seeds.split(",")]
    runs: list[dict[str, object]] = json.loads(options.out.read_text()) if options.out.exists() else []
    if options.again:
        runs = [run for run in runs if _job(run) not in jobs]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        missing = [] if options.tables else [job for job in jobs if job not in map(_job, runs)]
        for result in pool.imap(run, missing):
            print(result, flush=True)
            runs.append(result)
            runs.sort(key=lambda run: (list(KINDS).index(run["run"]), run["seed"]))
            options.out.write_text(json.dumps(runs, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(report(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
