"""torchrec's own methods test_sharding_*, themselves, on 2, 4 and 8 emulated NPUs: all that they draw, but for UVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("shipped_sharding.py")
# What torchrec 1.1.0 gets wrong on every device: the length of whole bags in grid sharding
# (docs/generated/torchrec-grid.md).
WRONG_EVERYWHERE = {("test_sharding_grid", "mean"), ("test_sharding_grid_8gpu", "mean")}

pytestmark = [pytest.mark.twin, pytest.mark.npus(8)]


def run(patched: str, folder: Path, *methods: str) -> list[dict[str, Any]]:
    path = os.pathsep.join([patched, os.environ.get("PYTHONPATH", "")])
    settings = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "TWIN_NPU_COUNT": "8"}
    if "TWIN_LIB64" in os.environ:
        settings["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, str(PROGRAM), str(folder), *methods]
    done = subprocess.run(argv, env={**os.environ, **settings, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check(rows: list[dict[str, Any]], calls: int) -> None:
    assert [row for row in rows if row["outcome"] == "fail"] == []
    excused = {(row["method"], row["choices"].split(", ")[-1]) for row in rows if row["outcome"] != "pass"}
    assert excused <= WRONG_EVERYWHERE
    assert len(rows) == calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "calls"),
    [
        ("test_sharding_rw", 32),
        ("test_sharding_dp", 2),
        ("test_sharding_cw", 16),
        ("test_sharding_twcw", 16),
        ("test_sharding_tw", 16),
        ("test_sharding_twrw", 32),
        ("test_sharding_variable_batch", 32),
        ("test_sharding_grid", 8),
        ("test_sharding_grid_8gpu", 8),
    ],
)
def test_the_shipped_method_passes(method: str, calls: int, patched: str, tmp_path: Path) -> None:
    check(run(patched, tmp_path, method), calls)
