"""One ranking run on several devices, side by side: python -m benchmarks.parity [--devices cpu,npu,cuda]

The preset kuairand-1k-benchmark, smaller, on files in KuaiRand's own layout that follow a known rule
(`data.synthetic`, "planted actions"): eight signals, their probabilities known. The files are read as the public ones
are. Every row starts from the same weights and sees the same batches and the same dropout (`train.deterministic`), in
a process of its own. "cpu plain" is attention in plain PyTorch operators, the independent implementation that the
others are compared with.

Compared: the loss of every step, relative, in two spans, and the AUC of each task after the last one; beside the Bayes
AUC of the rule. BOUNDS of fp32 are what docs/targets.md asks; those of bf16 were set before the runs. A row that is
outside says so, and the exit code is 1.

Without --devices: cpu, and npu and cuda where they are here. Rows of devices that are not here are kept from the file,
with the commit and machine that they were measured on. Writes benchmarks/results/parity.{json,md}.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gr_model import config as configs
from gr_model import data as datasets
from gr_model.config import Config, presets
from gr_model.data import synthetic
from gr_model.data.kuairand import FEATURES, PERIODS, SIGNALS
from gr_model.tasks import metrics

RESULTS = Path(__file__).parent / "results" / "parity.json"
RULE = {"users": 512, "items": 400, "length": 96, "shortest": 32, "segments": 6, "seed": 7}
HELD_OUT = 8  # interactions of a user that are scored
SETTINGS = [
    "dataset=kuairand-pure",
    "model.dim=64",
    "model.heads=4",
    "model.qk_dim=16",
    "model.value_dim=16",
    "model.blocks=2",
    "model.max_items=96",
    f"model.contextual={','.join(FEATURES)}",
    f"ranking.held_out={HELD_OUT}",
    "train.batch=32",
    "train.steps=160",
    "train.lr=2e-3",
    "train.deterministic=true",
    "data.workers=0",
]
ROWS = {  # name: device and what differs
    "cpu plain": ("cpu", ["model.attention=plain"]),
    "cpu": ("cpu", ["model.attention=fused"]),
    "npu": ("npu", ["model.attention=fused"]),
    "cuda": ("cuda", ["model.attention=fused"]),
    "cuda bf16": ("cuda", ["model.attention=fused", "train.precision=bf16"]),
}
PEER = "cpu plain"
EARLY = 20  # steps before rounding has had time to grow
# By precision: the relative difference of a step's loss from PEER's, in the first EARLY steps and in all; of an AUC.
BOUNDS = {"fp32": (1e-5, 1e-5, 1e-3), "bf16": (1e-2, 3e-2, 1e-2)}


def config_of(row: str) -> Config:
    return configs.override(presets.get("kuairand-1k-benchmark"), [*SETTINGS, *ROWS[row][1]])


def write_files(folder: Path) -> synthetic.Signals:
    """The rule's histories as two logs and a table of users, in the columns of the public files that are read."""
    loaded, rule = synthetic.actions(**RULE)
    folder.mkdir(parents=True)
    columns = ("user_id", "video_id", "time_ms", *SIGNALS)
    for part, period in enumerate(PERIODS):
        with (folder / f"log_standard_{period}_pure.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for user, history in enumerate(loaded.users):
                half = len(history.items) // 2
                for at in range(half) if part == 0 else range(half, len(history.items)):
                    bits = [int(history.actions[at]) >> bit & 1 for bit in range(len(SIGNALS))]
                    writer.writerow([user, int(history.items[at]), int(history.times[at]) * 1000, *bits])
    with (folder / "user_features_pure.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", *FEATURES])
        for user, history in enumerate(loaded.users):
            writer.writerow([user, f"segment{history.features[0]}", *["0"] * (len(FEATURES) - 1)])
    return rule


def measure(row: str, data_dir: Path) -> dict[str, Any]:
    """Trains one row in this process."""
    import torch

    from gr_model.runtime.device import describe, open_device
    from gr_model.training.trainer import Trainer

    device = open_device(ROWS[row][0])
    torch.set_num_threads(2)
    config = config_of(row)
    loaded = datasets.load(config.dataset, data_dir, say=lambda text: None)
    trainer = Trainer(config, loaded, device)
    losses = []
    while trainer.step < config.train.steps:
        result = trainer.train_step()
        losses.append(result)
        if trainer.step % 20 == 0:
            print(f"{row}: step {trainer.step} of {config.train.steps}", file=sys.stderr, flush=True)
    reached = trainer.evaluate()
    return {
        "device": describe(device),
        "precision": config.train.precision,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "commit": _commit(),
        "date": datetime.date.today().isoformat(),
        "settings": [*SETTINGS, *ROWS[row][1]],
        "losses": [float(result.loss) for result in losses],
        "auc": {name: float(reached[f"auc/{name}"]) for name in SIGNALS},
    }


def bayes(rule: synthetic.Signals) -> dict[str, float]:
    """AUC of the true probabilities on what is scored."""
    loaded = rule.interactions()
    chances = np.concatenate([rule.probabilities(user)[-HELD_OUT:] for user in loaded.users])
    actions = np.concatenate([user.actions[-HELD_OUT:] for user in loaded.users])
    return {name: float(metrics.auc(chances[:, t], (actions >> t & 1).astype(bool))) for t, name in enumerate(SIGNALS)}


@dataclasses.dataclass(frozen=True)
class Distance:
    """Of a row from PEER."""

    early: float
    late: float
    auc: float

    def outside(self, precision: str) -> bool:
        return any(not found <= bound for found, bound in zip(dataclasses.astuple(self), BOUNDS[precision]))


def distance(row: dict[str, Any], peer: dict[str, Any]) -> Distance:
    ours, theirs = np.array(row["losses"]), np.array(peer["losses"])
    relative = np.abs(ours - theirs) / np.abs(theirs)
    return Distance(
        early=float(relative[:EARLY].max()),
        late=float(relative.max()),
        auc=max(abs(row["auc"][name] - peer["auc"][name]) for name in SIGNALS),
    )


def table(rows: dict[str, dict[str, Any]], best: dict[str, float]) -> str:
    peer = rows[PEER]
    steps = len(peer["losses"])
    shown = [1, EARLY, steps // 2, steps]
    lines = [
        "# One ranking run on several devices",
        "",
        f"`python -m benchmarks.parity`; its head says how. {RULE['users']} users, {steps} steps of 32 users, "
        f"AUC on {RULE['users'] * HELD_OUT:,} held-out interactions. Differences are from `{PEER}`: of the loss "
        f"relative, the largest of the first {EARLY} steps and of all; of the AUC the largest of the eight tasks.",
        "",
        f"| row | device | precision | {' | '.join(f'loss {n}' for n in shown)} | first {EARLY} | all | AUC | within |",
        "|---" * (len(shown) + 7) + "|",
    ]
    for name, row in rows.items():
        found, bounds = distance(row, peer), BOUNDS[row["precision"]]
        losses = " | ".join(f"{row['losses'][n - 1]:.6f}" for n in shown)
        spans = " | ".join(f"{value:.1e} of {bound:.0e}" for value, bound in zip(dataclasses.astuple(found), bounds))
        verdict = "peer" if name == PEER else "no" if found.outside(row["precision"]) else "yes"
        lines.append(f"| {name} | {row['device']} | {row['precision']} | {losses} | {spans} | {verdict} |")
    lines += ["", f"| AUC | {' | '.join(rows)} | best possible |", "|---" * (len(rows) + 2) + "|"]
    for name in SIGNALS:
        reached = " | ".join(f"{row['auc'][name]:.4f}" for row in rows.values())
        lines.append(f"| {name} | {reached} | {best[name]:.4f} |")
    lines += ["", "| row | torch | machine | commit | date |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {row['torch']} | {row['machine']} | {row['commit']} | {row['date']} |"
        for name, row in rows.items()
    ]
    missing = [name for name in ROWS if name not in rows]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _commit() -> str:
    if given := os.environ.get("GRSTACK_COMMIT"):
        return given
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _here() -> list[str]:
    import importlib.util

    import torch

    npu = ["npu"] if importlib.util.find_spec("torch_npu") else []
    return ["cpu", *npu, *(["cuda"] if torch.cuda.is_available() else [])]


def _in_a_process(row: str, data_dir: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.parity", "--row", row, "--data-dir", str(data_dir)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"parity: row {row} ended with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="", help="cpu,npu,cuda (default: those that are here)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measure(options.row, options.data_dir)))
        return 0
    devices = options.devices.split(",") if options.devices else _here()
    before = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    rows = {name: row for name, row in before.items() if ROWS[name][0] not in devices}
    with tempfile.TemporaryDirectory(prefix="parity-") as scratch:
        rule = write_files(Path(scratch) / "kuairand-pure")
        for name, (device, _) in ROWS.items():
            if device in devices:
                rows[name] = _in_a_process(name, Path(scratch))
    rows = {name: rows[name] for name in ROWS if name in rows}
    best = bayes(rule)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rule": RULE, "bounds": BOUNDS, "bayes": best, "rows": rows}, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(table(rows, best))
    print(table(rows, best))
    peer = rows[PEER]
    outside = [name for name, row in rows.items() if distance(row, peer).outside(row["precision"])]
    if outside:
        print(f"parity: outside the bounds: {', '.join(outside)}", file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
