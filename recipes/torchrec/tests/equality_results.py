"""What equality_program.py's ranks found, by kind of device and number of ranks, and how it is compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import equality_program as program
import sharded_training
import torch
from sharded_training import Case

TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
Results = dict[tuple[str, int], list[dict[str, Any]]]


def of(worlds: list[int], patched: str, folder: Path) -> Results:
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        "TWIN_NPU_COUNT": str(max(worlds)),
        "PYTHONPATH": f"{patched}:{os.environ.get('PYTHONPATH', '')}",
    }
    if "TWIN_LIB64" in os.environ:
        env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, program.__file__, str(folder), *map(str, worlds)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = {
        (kind, world): torch.load(folder / f"{kind}-{world}.pt", weights_only=False)
        for kind in ("npu", "cpu")
        for world in worlds
    }
    log = (folder / "ranks.log").read_text()[-4000:]
    for key, value in loaded.items():
        assert isinstance(value, list), f"{key}: {value}\n{log}"
    return loaded


def assert_equal(got: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(torch.tensor(got["losses"]), torch.tensor(expected["losses"]), **TOLERANCE)
    for name in (*sharded_training.TABLES, "over"):
        torch.testing.assert_close(got[name], expected[name], **TOLERANCE)


def check_case(case: Case, world: int, results: Results) -> None:
    """The model sums the embeddings of a sample, so an EmbeddingCollection trains to what an EmbeddingBagCollection
    does, and that is its reference: fbgemm's CPU kernels have no unpooled lookup."""
    npu = results["npu", world][0][case.name]
    cpu = results["cpu", world][0][Case("bags", case.sharding, case.optimizer).name]
    assert len(npu["losses"]) == program.STEPS and len(npu["losses"][0]) == world
    assert all("/npu:" in placement for placement in npu["placements"])
    assert npu["losses"][0] != npu["losses"][-1]
    assert_equal(npu, cpu)
