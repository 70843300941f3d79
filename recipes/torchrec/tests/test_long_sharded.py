"""Memory, descriptors, threads and shared memory of two ranks do not grow with the steps of a sharded training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("long_sharded.py")
GROWTH = 4 << 20  # bytes of a process: 400 a step would already be too much


def check(ranks: list[list[dict[str, Any]]]) -> None:
    """From the third sample on: before it caches fill and kernels are chosen."""
    for samples in ranks:
        first, last = samples[2], samples[-1]
        assert last["resident"] - first["resident"] < GROWTH, samples
        assert last["allocated"] - first["allocated"] < 1 << 16, samples  # another batch
        for name in ("reserved", "descriptors", "threads", "shared"):
            assert last[name] == first[name], samples


@pytest.mark.twin
@pytest.mark.npus(2)
@pytest.mark.slow
@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_10000_steps_hold_no_more_memory(patched: str, tmp_path: Path, queue: str) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "TASK_QUEUE_ENABLE": queue}
    env["PYTHONPATH"] = f"{patched}:{os.environ.get('PYTHONPATH', '')}"
    argv = [sys.executable, str(PROGRAM), "10000", str(tmp_path / "log")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=1600)
    assert done.returncode == 0, done.stdout + done.stderr
    check(json.loads(done.stdout.splitlines()[-1])["ranks"])
