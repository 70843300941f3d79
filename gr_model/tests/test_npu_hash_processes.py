"""Hash tables over two NPUs: ids travel from host to host and slots are found there, so no process waits for its device
but to read losses (docs/twin.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gr_model.report.counts import Counts
from gr_model.tests import counted_hash_tables
from gr_model.tests.counted_hash_tables import CASES, STEPS
from gr_model.tests.launch import free_port

PROGRAM = Path(__file__).with_name("counted_hash_processes.py")
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ranking", "retrieval", "retrieval ahead")
PROCESSES = 2
pytestmark = [pytest.mark.twin, pytest.mark.emulated, pytest.mark.npus(PROCESSES)]
REBUILT = 2  # the step in which DistributedDataParallel sorts its buckets, once


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[list[dict[str, list[float]]], list[dict[str, list[Counts]]]]:
    """Losses, and counts of each step, by case; of each process."""
    folder = tmp_path_factory.mktemp("counts")
    env = {**os.environ, "TWIN_COUNTS": str(folder / "%r.jsonl"), "OMP_NUM_THREADS": "1", "TASK_QUEUE_ENABLE": "0"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    launcher = ["torch.distributed.run", "--nproc-per-node", str(PROCESSES), "--master-port", str(free_port())]
    argv = [sys.executable, "-m", *launcher, str(PROGRAM), *NAMES]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return losses, [steps_of(folder / f"{rank}.jsonl") for rank in range(PROCESSES)]


def steps_of(path: Path) -> dict[str, list[Counts]]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    counts = iter([Counts(line) for line in lines if line["kind"] == "step"])
    found = {}
    for name in NAMES:
        found[name] = [next(counts) for _ in range(STEPS)]
        if CASES[name].train.pipeline != "none":
            next(counts)  # the call that finds no batch left
    assert next(counts, None) is None
    return found


@pytest.mark.parametrize("rank", range(PROCESSES))
@pytest.mark.parametrize("case", NAMES)
def test_the_host_waits_for_losses_alone(trained, case: str, rank: int) -> None:
    every = CASES[case].train.log_every
    for index, counts in enumerate(trained[1][rank][case], start=1):
        waits = [place for place in counts.places if not place["call"].endswith("Async")]
        if index == REBUILT:
            waits = [place for place in waits if "/tasks/" not in place["at"]]  # of the model's call
        assert bool(waits) == (index % every == 0), waits
        assert all("readings.py" in place["at"] for place in waits), waits


@pytest.mark.parametrize("rank", range(PROCESSES))
@pytest.mark.parametrize("case", NAMES)
def test_what_comes_to_the_device_is_pinned(trained, case: str, rank: int) -> None:
    for index, counts in enumerate(trained[1][rank][case], start=1):
        rows = [row for row in counts.copies if row["way"] == "host_to_device"]
        if index == REBUILT:
            rows = [row for row in rows if row["pinned"]]
        assert rows and all(row["pinned"] and not row["blocking"] for row in rows), rows


def test_losses_are_those_of_one_process_on_the_cpu(trained) -> None:
    """With rows for all ids, wherever they are."""
    alone = [step["loss"] for step in counted_hash_tables.train(CASES["ranking"], torch.device("cpu"))]
    for losses in trained[0]:
        assert losses["ranking"] == pytest.approx(alone, rel=1e-4)
        assert losses["retrieval ahead"] == losses["retrieval"]
    assert len(trained[0]) == PROCESSES and trained[0][0] == trained[0][1]
