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
LIMIT_MIB = 1024


def test_more_ids_than_memory_holds(folder: Path) -> None:
    figures = stream(folder, 60_000, 2_000)
    assert figures["evicted_rows"] >= 60_000 - 4 * 2_000
    assert figures["disk_bytes_per_id"] < 72 * 1.6


@pytest.mark.slow
@pytest.mark.nightly
def test_100_million_ids_in_1_gib(folder: Path) -> None:
    """In a process of its own, of which the kernel takes no more memory than that, page cache included."""
    argv = [sys.executable, str(PROGRAM), str(folder), "100000000", "--limit-mib", str(LIMIT_MIB)]
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env)
    figures = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(figures))
    assert figures["ids"] == 100_000_000 and figures["limit_mib"] <= LIMIT_MIB
    assert figures["limit_peak_mib"] <= LIMIT_MIB and figures["anonymous_mib"] < LIMIT_MIB * 3 / 4
