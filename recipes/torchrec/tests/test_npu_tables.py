"""torchrec's fused tables on an emulated NPU: values against float64, and what a step launches and waits for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import npu_tables as program
import pytest
import table_cases as cases
import torch
from table_cases import Case

FORWARD, BACKWARD = "SplitEmbeddingCodegenForwardUnweighted", "BackwardCodegenAdagradUnweightedExact"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
COUNTER = 1  # of Adam's steps
ZEROS = 1  # for the gradient of the weights
SCALED_ROWS = 4  # unpooled rows times their weights, and the gradient of that


def assert_equal(got: Any, case: Case) -> None:
    for have, want in zip(got, cases.trained(case), strict=True):
        for left, right in zip(have, want, strict=True):
            torch.testing.assert_close(left.double(), right.double(), **TOLERANCE)


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_a_table_on_the_cpu_equals_float64(case: Case) -> None:
    assert_equal(program.train(case, torch.device("cpu")), case)


@pytest.fixture(scope="module")
def on_npu(patched: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("tables")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "TASK_QUEUE_ENABLE": "0"}
    env |= {"TWIN_COUNTS": str(folder / "counts.jsonl"), "PYTHONPATH": f"{patched}:{os.environ.get('PYTHONPATH', '')}"}
    if "TWIN_LIB64" in os.environ:
        env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, program.__file__, "npu", str(folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = folder / "counts.jsonl"  # by an emulated device alone
    lines = [json.loads(line) for line in counts.read_text().splitlines()] if counts.is_file() else []
    return folder, [line for line in lines if line["kind"] == "step"]


@pytest.mark.twin
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_a_table_on_the_npu_equals_float64(case: Case, on_npu: tuple[Path, list[dict[str, Any]]]) -> None:
    assert_equal(torch.load(on_npu[0] / f"{case.name}.pt", weights_only=True), case)


@pytest.mark.twin
@pytest.mark.emulated
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_a_step_is_one_lookup_and_one_update(case: Case, on_npu: tuple[Path, list[dict[str, Any]]]) -> None:
    """Of all tables; the host waits for nothing, and what comes back is the first step's count of bad indices."""
    steps = [line for line in on_npu[1] if line["name"] == f"step {case.name}"]
    assert len(steps) == cases.STEPS
    wanted = COUNTER if case.optimizer.startswith("adam") else 0
    if case.weighted:
        wanted += SCALED_ROWS if case.pooling == "none" else ZEROS
    for number, step in enumerate(steps):
        assert step["launches"]["custom"] == {"BoundsCheckIndices": 1, FORWARD: 1, BACKWARD: 1}
        assert not any(step["waits"].values()), step["places"]
        back = [row for row in step["copies"] if row["way"] == "device_to_host"]
        assert [row["bytes"] for row in back] == ([8] if number == 0 else []), step["places"]
        assert not any(row["blocking"] for row in back)
        extra = {name: count for kind in ("aclnn", "aten") for name, count in step["launches"][kind].items()}
        first = case is cases.CASES[0] and number == 0  # of the process: it clears the memory for kernels' records
        assert sum(extra.values()) == wanted + (1 if first else 0), extra


@pytest.mark.twin
def test_indices_out_of_bounds_are_told_after_the_call(on_npu: tuple[Path, list[dict[str, Any]]]) -> None:
    """WARNING reads row 0 in their place and says so once; FATAL raises when the device has told."""
    got = torch.load(on_npu[0] / "bounds.pt", weights_only=True)
    assert got["said"] == ["1 embedding indices are out of bounds; row 0 is used"]
    indices, offsets, _ = cases.make_batch(0)
    sample = int((offsets == 0).sum()) - 1  # of the first index
    text = f"indices[0] of table 0, batch {sample} is out of range; expected 0 <= index < {cases.ROWS[0]}"
    assert text in got["raised"]
    bag = indices[: offsets[sample + 1]]
    table = cases.make_tables(Case("sgd", "sum", False))[0]
    torch.testing.assert_close(got["out"][sample, : table.size(1)], table[[0, *bag[1:].tolist()]].sum(0))
