"""The kernels pass Triton's compiler, which is not there in a process that interprets them."""

import os
import subprocess
import sys
from pathlib import Path


def output(program: str, cache: Path) -> str:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TRITON_CACHE_DIR": str(cache)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, Path(__file__).with_name(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_for_hopper(tmp_path: Path) -> None:
    assert output("compile_kernels.py", tmp_path) == "23 kernels compiled\n"


def test_of_a_layer_for_hopper(tmp_path: Path) -> None:
    rows = "gate gate_backward keep norm norm_backward residual round_and_sum"
    every = f"embed embed_backward {rows} scored scored_backward silu silu_slope"
    assert output("compile_layer.py", tmp_path) == f"32 kernels compiled: {every}\n"
