"""On the CPU, and in plans for CUDA, patched and upstream torchrec give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

PROGRAM = Path(__file__).with_name("cpu_behaviour.py")


def results(pythonpath: str, out: Path) -> dict[str, list[object]]:
    env = {**os.environ, "PYTHONPATH": pythonpath, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(PROGRAM), str(out)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    loaded: dict[str, list[object]] = torch.load(out)
    return loaded


def test_same_results(upstream_tree: Path, patched: str, tmp_path: Path) -> None:
    before = results(str(upstream_tree), tmp_path / "before.pt")
    after = results(patched, tmp_path / "after.pt")
    assert before.keys() == after.keys() and len(before) == 8
    for name, expected in before.items():
        assert len(expected) == len(after[name]) > 0
        for old, new in zip(expected, after[name], strict=True):
            if isinstance(old, torch.Tensor):
                assert torch.equal(old, new), name
            else:
                assert old == new, name
