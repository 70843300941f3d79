"""What the committed figures of benchmarks/twin.py say, beside what the emulation promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
GROWTH = 4 << 20  # bytes of a process: 400 a step would already be too much


def committed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def check_flat(samples: list[dict[str, Any]], first: int) -> None:
    """From sample `first` on: before it caches fill and kernels are chosen."""
    early, last = samples[first], samples[-1]
    assert last["step"] == 10_000
    assert last["resident"] - early["resident"] < GROWTH, samples
    assert last["allocated"] - early["allocated"] < 1 << 16, samples
    assert [last[name] - early[name] for name in ("reserved", "descriptors", "threads")] == [0, 0, 0], samples


def test_10000_steps_held_no_more_memory() -> None:
    check_flat(committed("twin-robustness")["training"]["samples"], 1)


def test_200_kills_left_nothing() -> None:
    kills = committed("twin-robustness")["kills"]
    assert (kills["jobs"], kills["left_something"]) == (200, 0)
    assert kills["slowest_end_s"] < 10


def test_10000_sharded_steps_held_no_more_memory_with_any_task_queue() -> None:
    runs = committed("twin-sharded")["runs"]
    assert [run["TASK_QUEUE_ENABLE"] for run in runs] == ["0", "1", "2"]
    losses = []
    for run in runs:
        assert len(run["ranks"]) == 2
        for samples in run["ranks"]:
            check_flat(samples, 2)
            assert {sample["shared"] for sample in samples} == {samples[0]["shared"]}
        losses.append([[sample["loss"] for sample in samples] for samples in run["ranks"]])
    assert losses[0] == losses[1] == losses[2]
