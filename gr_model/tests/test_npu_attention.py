"""HSTU with the relative bias on an emulated NPU: the operators that make the bias, the CPU's gradients, no square."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin
PROGRAM = Path(__file__).with_name("npu_attention_program.py")
LENGTHS = (640, 1152)  # of two sequences with 4 heads: all cores have work, so that the workspace is as large
BYTES_PER_TOKEN = 4000  # of activations and gradients of 32 numbers; the bias alone would differ by 7.3 MB


def test_gradients_are_the_cpus_and_memory_has_no_square_of_the_length() -> None:
    command = [sys.executable, str(PROGRAM), *map(str, LENGTHS)]
    # Launches that wait in torch_npu's queue keep their workspaces (20 MB): how many do is a matter of load.
    environment = {**os.environ, "TASK_QUEUE_ENABLE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["implementation"] == "KernelAttention"
    assert found["around"] == [True, True, True, False, False, True]
    for differences in found["differences"]:
        assert len(differences) == 7 and max(differences) < 1e-5, differences
    short, long = found["peaks"]
    assert long - short < BYTES_PER_TOKEN * 2 * (LENGTHS[1] - LENGTHS[0]), found["peaks"]
