"""HSTU and SASRec on data whose best possible result is known: python -m benchmarks.planted [--runs NAME ...]

"sequences": NDCG@10 of the next item beside that of the rule that drew it (gr_model.data.synthetic.Planted, which
integrates the unknown genre out), same candidates, same mask, for HSTU and SASRec. "actions": AUC of eight signals
beside that of the true probabilities, HSTU. Data and model change with the seed. The learning rate of each is the best
of RATES on seed CHOOSING, whose data are no other run's; the rest of the settings is the same for both models, but for
those of OF_BACKBONE. Writes benchmarks/results/planted.{json,md}. A run that the file holds is not repeated unless
--again, and one of other settings is forgotten; --tables only makes the .md of the .json.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

Run = dict[str, Any]
TITLES = {"hstu": "HSTU", "sasrec": "SASRec"}
RESULTS = Path(__file__).parent / "results" / "planted.json"
CPU, USERS = torch.device("cpu"), 5000
SEEDS, CHOOSING = range(10), 100
RATES = (1.5e-3, 3e-3, 6e-3, 1.2e-2, 2.4e-2)
OF_BACKBONE = {"hstu": ["model.concat_ua=true"], "sasrec": []}
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


def sequences(backbone: str, seed: int, rate: float) -> dict[str, float]:
    data, rule = synthetic.sequences(users=USERS, seed=seed)
    trainer = Trainer(configs.override(SEQUENCES, _settings(backbone, seed, rate)), data, CPU)
    scores_IV = torch.from_numpy(np.stack([rule.next_item(user.items[:-1]) for user in trainer.task.users]))
    task, everything = trainer.task, [torch.eye(data.items, dtype=torch.float64)]
    ranks = evaluation.target_ranks(scores_IV, everything, task.targets(task.users), *task.seen(task.users))
    _train(trainer)
    return {"ndcg@10": trainer.evaluate()["ndcg@10"], "oracle": metrics.of_ranks(ranks)["ndcg@10"]}


def actions(backbone: str, seed: int, rate: float) -> dict[str, float]:
    data, rule = synthetic.actions(users=USERS, seed=seed)
    trainer = Trainer(configs.override(ACTIONS, _settings(backbone, seed, rate)), data, CPU)
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


def _settings(backbone: str, seed: int, rate: float) -> list[str]:
    return [f"model.backbone={backbone}", f"train.seed={seed}", f"train.lr={rate}", *OF_BACKBONE[backbone]]


def _train(trainer: Trainer) -> None:
    while trainer.step < trainer.config.train.steps:
        trainer.train_step()


@dataclass(frozen=True)
class Kind:
    run: Callable[[str, int, float], dict[str, float]]
    backbones: tuple[str, ...]
    reached: Callable[[Run], float]  # what the learning rate is chosen by


KINDS = {
    "sequences": Kind(sequences, ("hstu", "sasrec"), lambda run: run["ndcg@10"]),
    "actions": Kind(actions, ("hstu",), lambda run: statistics.mean(run[name] for name in synthetic.TASKS)),
}
Job = tuple[str, str, int, float]  # kind, backbone, seed, learning rate


def run(job: Job) -> Run:
    name, backbone, seed, rate = job
    torch.set_num_threads(1)
    keep_freed_memory()
    begin = time.process_time()
    found = KINDS[name].run(backbone, seed, rate)
    seconds = round(time.process_time() - begin, 1)
    where = {"machine": platform.machine(), "torch": torch.__version__}
    head = {"run": name, "backbone": backbone, "settings": OF_BACKBONE[backbone], "seed": seed, "rate": rate}
    return {**head, "processor seconds": seconds, **where, **found}


def _job(run: Run) -> Job:
    return run["run"], run["backbone"], run["seed"], run["rate"]


def chosen(runs: list[Run], name: str, backbone: str) -> float:
    """The learning rate."""
    tried = [r for r in runs if (r["run"], r["backbone"], r["seed"]) == (name, backbone, CHOOSING)]
    return float(max(tried, key=KINDS[name].reached)["rate"])


def counted(runs: list[Run], name: str, backbone: str) -> list[Run]:
    """Those of the table, by seed."""
    rate = chosen(runs, name, backbone)
    return [r for r in runs if _job(r) in {(name, backbone, seed, rate) for seed in SEEDS}]


def report(runs: list[Run]) -> str:
    where = sorted({f"one thread of a CPU ({run['machine']}), torch {run['torch']}" for run in runs})
    lines = [
        "# Planted rules",
        "",
        f"On {'; '.join(where)}; {USERS:,} users of 40 interactions. Learning rates: the best of "
        f"{', '.join(map(str, RATES))} on data of their own (seed {CHOOSING}). "
        f"HSTU with {', '.join(OF_BACKBONE['hstu'])}.",
    ]
    names = {run["run"] for run in runs if run["seed"] != CHOOSING}
    lines += _sequences(runs) if "sequences" in names else []
    lines += _actions(runs) if "actions" in names else []
    return "\n".join(lines) + "\n"


def _sequences(runs: list[Run]) -> list[str]:
    pairs = list(zip(counted(runs, "sequences", "hstu"), counted(runs, "sequences", "sasrec")))
    lines = [
        "",
        "| sequences, seed | oracle's NDCG@10 | HSTU | SASRec | HSTU less SASRec | HSTU's processor s | SASRec's |",
        "|---|---|---|---|---|---|---|",
    ]
    for ours, peer in pairs:
        lines.append(
            f"| {ours['seed']} | {ours['oracle']:.4f} | {ours['ndcg@10']:.4f} | {peer['ndcg@10']:.4f} | "
            f"{ours['ndcg@10'] - peer['ndcg@10']:+.4f} | {ours['processor seconds']} | {peer['processor seconds']} |"
        )
    less = [ours["ndcg@10"] - peer["ndcg@10"] for ours, peer in pairs]
    shares = [statistics.mean(r["ndcg@10"] / r["oracle"] for r in both) for both in zip(*pairs)]
    rates = [chosen(runs, "sequences", backbone) for backbone in KINDS["sequences"].backbones]
    edge = [f"{TITLES[b]}'s" for b, rate in zip(KINDS["sequences"].backbones, rates) if rate in (RATES[0], RATES[-1])]
    return [
        *lines,
        "",
        f"Of the oracle's: HSTU {shares[0]:.3f}, SASRec {shares[1]:.3f} (means of {len(pairs)} seeds). "
        f"HSTU less SASRec: {statistics.mean(less):+.4f}, standard error {_error(less):.4f}. "
        f"Learning rates: HSTU {rates[0]}, SASRec {rates[1]}"
        + (f"; {' and '.join(edge)} is at the edge of what was tried." if edge else "."),
    ]


def _actions(runs: list[Run]) -> list[str]:
    own = counted(runs, "actions", "hstu")
    lines = [
        "",
        f"| actions, mean of {len(own)} seeds | HSTU AUC | Bayes AUC | difference | standard error |",
        "|---|---|---|---|---|",
    ]
    for name in synthetic.TASKS:
        ours, best = (statistics.mean(r[key] for r in own) for key in (name, f"bayes {name}"))
        error = _error([r[f"bayes {name}"] - r[name] for r in own])
        lines.append(f"| {name} | {ours:.4f} | {best:.4f} | {best - ours:.4f} | {error:.4f} |")
    rate = chosen(runs, "actions", "hstu")
    edge = ", at the edge of what was tried" if rate in (RATES[0], RATES[-1]) else ""
    return [*lines, "", f"Learning rate {rate}{edge}."]


def _error(values: list[float]) -> float:
    return float(statistics.stdev(values) / len(values) ** 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs: list[Run] = json.loads(options.out.read_text()) if options.out.exists() else []
    runs = [run for run in runs if run.get("settings", []) == OF_BACKBONE[run["backbone"]]]
    if options.again:
        runs = [run for run in runs if run["run"] not in options.runs]
    models = [(name, backbone) for name in options.runs for backbone in KINDS[name].backbones]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:

        def add(jobs: list[Job]) -> None:
            for result in pool.imap(run, [job for job in jobs if job not in map(_job, runs)]):
                print(result, flush=True)
                runs.append(result)
                runs.sort(key=lambda run: (list(KINDS).index(run["run"]), *_job(run)[1:]))
                options.out.write_text(json.dumps(runs, indent=1) + "\n")

        if not options.tables:
            add([(*model, CHOOSING, rate) for model in models for rate in RATES])
            add([(*model, seed, chosen(runs, *model)) for model in models for seed in SEEDS])
    options.out.with_suffix(".md").write_text(report(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
