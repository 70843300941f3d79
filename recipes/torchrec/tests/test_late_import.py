"""A process group ends with destroy_process_group(), also where torchrec was imported after it was made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.twin
def test_no_watchdog_of_hccl_runs_while_the_process_exits(patched: str) -> None:
    """One that does meets torch_npu's tables when they are gone: now and then a segmentation fault."""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    env["PYTHONPATH"] = f"{patched}:{env.get('PYTHONPATH', '')}"
    if "TWIN_LIB64" in env:
        env["LD_LIBRARY_PATH"] = f"{env['TWIN_LIB64']}:{env.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, str(Path(__file__).with_name("late_import.py"))]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"before": 1, "after": 0}
