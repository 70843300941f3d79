"""Distinct ids without end through one table: every row is right, and memory stays small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from many_ids import stream

PROGRAM = Path(__file__).with_name("many_ids.py")


def test_more_ids_than_memory_holds(folder: Path) -> None:
    figures = stream(folder, 60_000, 2_000)
    assert figures["evicted_rows"] >= 60_000 - 4 * 2_000
    assert figures["disk_bytes_per_id"] < 72 * 1.6


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.memory(mib=1024)
def test_100_million_ids_in_1_gib(folder: Path, request: pytest.FixtureRequest) -> None:
    """The kernel gives them no more memory than that, page cache included: `inv test --slow` starts a container with
    the limit, which this test shares; elsewhere the program puts itself below one, or fails."""
    limit = request.node.get_closest_marker("memory").kwargs["mib"]
    argv = [sys.executable, str(PROGRAM), str(folder), "100000000", "--limit-mib", str(limit)]
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env)
    figures = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(figures))
    assert figures["ids"] == 100_000_000 and 0 < figures["limit_mib"] <= limit
    assert 0 < figures["limit_peak_mib"] <= limit and figures["anonymous_mib"] < limit * 3 / 4
