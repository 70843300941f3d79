"""What a training step on an NPU launches, waits for and copies: python -m benchmarks.step_counts

Counted on the emulated NPU (TWIN_COUNTS, docs/twin.md); no time is measured. The article's ranking model, short and
narrow, by where its items live: a static table, a hash table whose slots are found on the host, without and with
batches made ahead. Each with PyTorch's operators as they are called (TWIN_ATEN=override), and with the launches that
torch_npu makes of them by its calls of CANN (aclnn), which is nearest to a device. Steps behind the second one, so that
the optimizer's state is there. Writes benchmarks/results/step-counts.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from gr_model import config as configs
from gr_model.config import Config, presets
from gr_model.data import synthetic
from gr_model.report.counts import Counts
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

RESULTS = Path(__file__).resolve().parent / "results"
COUNTS = "TWIN_COUNTS"
STEPS, FIRST, LOG_EVERY = 8, 2, 4
SIZES = ("model.attention=fused", "model.dim=64", "model.heads=4", "model.qk_dim=16", "model.value_dim=16")
SIZES += ("model.max_items=64", "model.blocks=2", "train.batch=8", f"train.log_every={LOG_EVERY}", "ranking.held_out=5")
HASH = ("embedding.kind=hash", "embedding.optimizer=adam")
ROWS = {
    "static table": (),
    "hash table, slots found on the host": HASH,
    "hash table, batches made ahead": (*HASH, "train.pipeline=sparse_dist", "embedding.look_ahead=2"),
}
ATEN = {"override": "as called", "aclnn": "as torch_npu calls CANN"}
WAYS = ("host_to_device", "device_to_host")


def config_of(settings: tuple[str, ...]) -> Config:
    config = configs.override(presets.get("kuairand-1k-benchmark"), [*SIZES, *settings])
    return dataclasses.replace(config, ranking=dataclasses.replace(config.ranking, tasks=synthetic.TASKS))


def count() -> None:
    """In the child: the steps of each row, one row after the other; the pipeline's last call finds no batch left."""
    device = open_device("npu")
    data, _ = synthetic.actions(users=64)
    for name, settings in ROWS.items():
        trainer = Trainer(config_of(settings), data, device)
        done = sum(1 for _ in trainer.train_steps(trainer.loader().works(0, STEPS)))
        torch.npu.synchronize()
        print(json.dumps({"row": name, "steps": done, "ahead": trainer.config.train.pipeline != "none"}), flush=True)


def measure(aten: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.jsonl"
        environment = {**os.environ, COUNTS: str(path), "TASK_QUEUE_ENABLE": "0", "OMP_NUM_THREADS": "1"}
        environment["TWIN_ATEN"] = aten
        command = [sys.executable, "-m", "benchmarks.step_counts"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    counts = iter([Counts(line) for line in lines if line["kind"] == "step"])
    rows = []
    for row in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
        steps = [next(counts) for _ in range(row["steps"] + row["ahead"])][FIRST : row["steps"]]
        rows.append({"aten": aten, **row_of(row["row"], steps)})
    if next(counts, None) is not None:
        raise SystemExit("there are more steps than were made")
    return rows


def row_of(name: str, steps: list[Counts]) -> dict[str, Any]:
    def middle(figures: list[int]) -> int:
        return round(statistics.median(figures))

    waits = [sum(step.waits.values()) for step in steps]
    copies = [copy for step in steps for copy in step.copies if copy["way"] in WAYS]
    return {
        "row": name,
        "steps": len(steps),
        "launches": middle([step.launches for step in steps]),
        "of our operators": middle([step.launches_of("custom") for step in steps]),
        "steps with a wait": sum(map(bool, waits)),
        "waits in all": sum(waits),
        "waits from": sorted(
            {place["at"].rpartition("/")[2].partition(":")[0] for step in steps for place in step.places}
        ),
        "copies that block or are not pinned": sum(c["count"] for c in copies if c["blocking"] or not c["pinned"]),
        **{f"bytes {way}": middle([step.bytes(way) for step in steps]) for way in WAYS},
        "peak bytes": max(step.peak for step in steps),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# A training step on an NPU, counted",
        "",
        "`python -m benchmarks.step_counts`, on an emulated NPU; its head says what runs. Medians over steps, of which",
        f"every {LOG_EVERY}th reads the losses: that is asked to be the only wait of the host.",
        "",
        "| items | PyTorch's operators | launches | of our operators | steps with a wait | waits | from |"
        " copies that block or are not pinned | bytes to the device | to the host | MiB at peak |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['row']} | {ATEN[r['aten']]} | {r['launches']} | {r['of our operators']} |"
            f" {r['steps with a wait']} of {r['steps']} |"
            f" {r['waits in all']} | {', '.join(r['waits from'])} | {r['copies that block or are not pinned']} |"
            f" {r['bytes host_to_device']:,} | {r['bytes device_to_host']:,} | {r['peak bytes'] / 2**20:.1f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder")
    options = parser.parse_args()
    if COUNTS in os.environ:
        count()
        return
    rows = [row for aten in ATEN for row in measure(aten)]
    text = table(rows)
    print(text)
    (options.output / "step-counts.json").write_text(json.dumps(rows, indent=1) + "\n")
    (options.output / "step-counts.md").write_text(text)


if __name__ == "__main__":
    main()
