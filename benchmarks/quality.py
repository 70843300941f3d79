"""ML-100K retrieval on the test targets, HSTU beside SASRec: python -m benchmarks.quality [--device D] [--workers N]

Ten seeds of each model, with the settings and the number of steps that benchmarks/quality_search.py chose for it on
validation targets, as many choices for either. A run looks at the test once, after its last step. A seed counts if both
models were trained with it. Then HSTU with the settings of the peer, three seeds. --search S makes the search first, in
S seconds, with the same processes.

The runs are kept in benchmarks/results/quality-ml-100k.json (a run that is there is not repeated), from which the table
quality-ml-100k.md is made; --tables makes it and trains nothing; --again forgets the runs. Popularity, also under other
orders of ratings of equal time, is computed with the runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from gr_model.common.files import write_text  # noqa: E402
from gr_model.config import presets  # noqa: E402
from gr_model.data.interactions import Interactions  # noqa: E402
from gr_model.tasks import baselines, metrics  # noqa: E402
from gr_model.training.trainer import Trainer  # noqa: E402

from . import quality_run, quality_search  # noqa: E402
from .quality_run import Run  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "quality-ml-100k.json"
METRICS = ("hr@10", "ndcg@10", "hr@50", "ndcg@50", "mrr")
SEEDS, AHEAD = tuple(range(10)), 2.0  # asked: so many standard errors
ORDER = "order of the file (ours)"
PEERS_NAME, PEERS_SEEDS, PEERS_STEPS = "HSTU, settings of the peer", (0, 1, 2), 808
PEERS_SETTINGS = (
    "model.dropout=0.2",
    "retrieval.temperature=0.05",
    "train.lr=1e-3",
    "train.ema=0",
    "retrieval.share=1",
)
PEER = {"HSTU": (0.192, 0.0995), "SASRec": (0.189, 0.102), "popularity": (0.060, 0.032)}  # last epoch, docs/targets.md


def jobs(device: str, folder: str) -> list[quality_run.Job]:
    searched = quality_run.read(quality_search.RESULTS)["runs"]
    choices = {model: quality_search.chosen(searched, model) for model in quality_search.MODELS}
    found = []
    for seed in SEEDS:
        for model, choice in choices.items():
            settings = (*quality_search.MODELS[model], *choice.settings)
            found.append(quality_run.Job("test", model, settings, seed, (choice.steps,), device, folder))
    peers = [
        quality_run.Job("test", PEERS_NAME, PEERS_SETTINGS, seed, (PEERS_STEPS,), device, folder)
        for seed in PEERS_SEEDS
    ]
    return [*found, *peers]


def popularity(interactions: Interactions) -> dict[str, dict[str, float]]:
    """By the order of ratings that one user gave within one second: nothing in the data says which came last."""
    rng = np.random.default_rng(0)
    orders = {
        ORDER: lambda n, items: np.arange(n),
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


def paired(runs: Sequence[Run], name: str) -> dict[str, float]:
    """HSTU less SASRec. error: of the mean over the seeds, each seed's two runs compared; of users: how much another
    sample of users would change it, each user's two results (means over the seeds) compared."""
    ranks = {
        model: np.array([run["ranks"] for run in counted(runs, model)], np.int64) for model in quality_search.MODELS
    }
    metric = metrics.OF_RANKS[name]
    by_seed = [metric(ours) - metric(theirs) for ours, theirs in zip(*ranks.values(), strict=True)]
    of_user = [np.array([[metric(rank) for rank in row[:, None]] for row in of_model]) for of_model in ranks.values()]
    by_user = of_user[0].mean(0) - of_user[1].mean(0)
    return {
        "difference": statistics.mean(by_seed),
        "error": statistics.stdev(by_seed) / len(by_seed) ** 0.5,
        "of users": float(by_user.std(ddof=1) / len(by_user) ** 0.5),
    }


def counted(runs: Sequence[Run], model: str) -> list[Run]:
    """Of HSTU and SASRec those of the seeds that both were trained with."""
    if model not in quality_search.MODELS:
        return _of(runs, model)
    both = set.intersection(*({run["seed"] for run in _of(runs, name)} for name in quality_search.MODELS))
    return [run for run in _of(runs, model) if run["seed"] in both]


def _of(runs: Sequence[Run], model: str) -> list[Run]:
    return sorted((run for run in runs if run["model"] == model), key=lambda run: run["seed"])


def table(found: dict[str, Any]) -> str:
    runs, popular, ties, users = found["runs"], found["popularity"], found["ties"], found["users"]
    ours = popular[ORDER]
    lines = [
        "# Quality on ML-100K",
        "",
        f"`python -m benchmarks.quality`; its head says how. Leave-last-out over {users} users, all 1,682 "
        "items are candidates but the (up to 200) of the input; ties of score count against the model; stable order by "
        "time, then file; the model never sees the time of the target. Dim 50, 1 head, sequence 200, batch 128; 2 "
        "blocks where the runs below name no other number. Mean over the seeds ± its standard error; one standard "
        "error of HR@10 from the users is 0.013.",
        "",
        "| model | seeds | " + " | ".join(name.upper() for name in METRICS) + " |",
        "|---|---|" + "---|" * len(METRICS),
    ]
    for model in (*quality_search.MODELS, PEERS_NAME):
        own, cells = counted(runs, model), []
        for name in METRICS if own else ():
            values = [run["curve"][-1][name] for run in own]
            error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.4f}{error}")
        if own:
            lines.append(f"| {model} | {len(own)} | {' | '.join(cells)} |")
    lines.append(f"| popularity | | {' | '.join(f'{ours[name]:.4f}' for name in METRICS)} |")
    lines += ["", "## HSTU less SASRec", "", *_differences(runs), "", _on_validation(runs), ""]
    lines += [
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
        "| model | settings | steps | seed | device | HR@10 | NDCG@10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in (*quality_search.MODELS, PEERS_NAME):
        for run in _of(runs, model):
            last = run["curve"][-1]
            settings = quality_search.named(tuple(run["settings"]))
            lines.append(
                f"| {model} | {settings} | {last['step']} | {run['seed']} | {run['device']}, torch {run['torch']} | "
                f"{last['hr@10']:.4f} | {last['ndcg@10']:.4f} |"
            )
    return "\n".join(lines) + "\n"


def _differences(runs: Sequence[Run]) -> list[str]:
    lines = [
        f"Runs of one seed are compared, {len(counted(runs, 'HSTU'))} of the {len(SEEDS)} seeds; asked is that HSTU is "
        f"ahead by {AHEAD:g} standard errors.",
        "",
        "| metric | difference ± standard error over the seeds | asked | standard error over the users |",
        "|---|---|---|---|",
    ]
    for name in METRICS if len(counted(runs, "HSTU")) > 1 else ():
        found = paired(runs, name)
        errors = found["difference"] / found["error"]
        word = "reached" if errors >= AHEAD else "missed"
        lines.append(
            f"| {name.upper()} | {found['difference']:+.4f} ± {found['error']:.4f} | {word}: {errors:+.1f} | "
            f"{found['of users']:.4f} |"
        )
    return lines


def popularity_of(interactions: Interactions) -> dict[str, Any]:
    users = [user for user in interactions.users if len(user) >= 3]
    ties = sum(int(user.times[-1] == user.times[-2]) for user in users)
    return {"popularity": popularity(interactions), "ties": ties, "users": len(users)}


def _on_validation(runs: Sequence[Run]) -> str:
    searched = quality_run.read(quality_search.RESULTS)["runs"]
    ahead = quality_search.ahead(searched)
    values = {name: quality_search.chosen(searched, name).value for name in quality_search.MODELS}
    text = (
        "On the validation targets, five of each user, the settings that were chosen reach NDCG@10 "
        f"{', '.join(f'{name} {value:.4f}' for name, value in values.items())} ([the search](quality-search.md)); with "
        f"{sum(ahead)} of the {len(ahead)} settings that both models were trained with HSTU is ahead there."
    )
    if len(counted(runs, "HSTU")) > 1:
        of_users = paired(runs, "ndcg@10")["of users"]
        text += (
            f" That lead is {values['HSTU'] - values['SASRec']:+.4f}; on the test, one target of each user, the "
            f"difference has a standard error of {of_users:.4f} from the users, however many seeds there are."
        )
    return text


def write(found: dict[str, Any]) -> None:
    """The results, and the page that is made of them."""
    write_text(RESULTS, quality_run.dump(found))
    write_text(RESULTS.with_suffix(".md"), table(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--search", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--data-dir", default=os.environ.get("GRSTACK_DATA", "data"))
    options = parser.parse_args()
    found = quality_run.read(RESULTS)
    if options.again:
        found["runs"] = []
    if not options.tables:
        with quality_run.pool(options.workers) as workers:
            if options.search:
                quality_search.search(workers, options.device, options.data_dir, options.search)
            for run in quality_run.finish(workers, jobs(options.device, options.data_dir), RESULTS, found):
                last = run["curve"][-1]
                print(
                    f"{run['model']} seed {run['seed']}: HR@10 {last['hr@10']:.4f} NDCG@10 {last['ndcg@10']:.4f} "
                    f"{run['seconds']} s",
                    flush=True,
                )
        found |= popularity_of(quality_run.ratings(options.data_dir))
    write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
