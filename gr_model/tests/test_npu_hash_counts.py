"""Hash tables on an NPU: slots are found on the host, which waits for nothing but the losses (docs/twin.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gr_model.report.counts import Counts
from gr_model.tests.counted_hash_tables import CASES, STEPS
from gr_model.tests.test_npu_counts import RECORDS

pytestmark = [pytest.mark.twin, pytest.mark.emulated]

PROGRAM = Path(__file__).with_name("counted_hash_tables.py")
ROOT = Path(__file__).resolve().parents[2]


def run(*cases: str, **settings: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What the program printed."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, str(PROGRAM), *cases], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[dict[str, dict[str, list[dict[str, Any]]]], dict[str, list[Counts]]]:
    """What each step gave, by device and case; counts of each step, by case."""
    path = tmp_path_factory.mktemp("counts") / "counts.jsonl"
    found = run(TWIN_COUNTS=str(path), TASK_QUEUE_ENABLE="0")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    counts = iter([Counts(line) for line in lines if line["kind"] == "step"])
    by_case: dict[str, list[Counts]] = {}
    for name, config in CASES.items():
        by_case[name] = [next(counts) for _ in range(STEPS)]
        if config.train.pipeline != "none":
            next(counts)  # the call that finds no batch left
    assert next(counts, None) is None
    return found, by_case


@pytest.mark.parametrize("case", CASES)
def test_the_host_waits_for_losses_alone(trained, case: str) -> None:
    every = CASES[case].train.log_every
    for index, counts in enumerate(trained[1][case], start=1):
        read = index % every == 0
        assert sorted(counts.waits.values()) == ([1, 1] if read else []), (index, counts.places)
        numbers = 2 * every - (1 if index == every else 0)
        assert counts.bytes("device_to_host") == (4 * numbers + RECORDS if read else 0), counts.places


@pytest.mark.parametrize("case", CASES)
def test_slots_and_new_rows_travel_from_pinned_memory(trained, case: str) -> None:
    for counts in trained[1][case]:
        rows = [row for row in counts.copies if row["way"] == "host_to_device"]
        assert all(row["pinned"] and not row["blocking"] for row in rows), rows
    assert any(row["way"] == "host_to_device" for row in trained[1][case][0].copies)


@pytest.mark.parametrize("task", ["ranking", "retrieval"])
def test_steps_are_those_of_the_cpu(trained, task: str) -> None:
    """The same ids have rows after each step, with eviction and admission; losses and rows to rounding."""
    on_npu, on_cpu = (trained[0][device][task] for device in ("npu", "cpu"))
    assert [step["ids"] for step in on_npu] == [step["ids"] for step in on_cpu]
    assert [step["evictions"] for step in on_npu] == [step["evictions"] for step in on_cpu]
    for key in ("loss", "rows"):
        assert [step[key] for step in on_npu] == pytest.approx([step[key] for step in on_cpu], rel=1e-4)
    if task == "retrieval":
        assert on_npu[-1]["evictions"] > 0


@pytest.mark.parametrize("task", ["ranking", "retrieval"])
def test_batches_in_flight_leave_the_table_alone(trained, task: str) -> None:
    """After each step the table, as a checkpoint would have it, is what it is without batches in flight."""
    steps = trained[0]["npu"]
    assert steps[f"{task} ahead"] == steps[task]


def test_no_copy_is_used_before_it_is_done(trained) -> None:
    """Nor is pinned memory given out again that is still being read: the emulated NPU orders every use."""
    steps = trained[0]["npu"]
    assert run("retrieval ahead", TWIN_STREAMS="strict")["npu"] == {"retrieval ahead": steps["retrieval ahead"]}
