"""On the CPU, and in plans for CUDA, patched and stock torchrec give the same bits, with torch_npu loaded by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent
LOGGED = 20_000  # characters of a failed test's output that are shown: its processes' tracebacks are there
REFUSED = {  # by stock torchrec, on the CPU
    "PrefetchTrainPipelineSparseDist": "unknown parameter type",  # records its batches on a stream
    "TrainPipelineSemiSync": "unknown parameter type",
}


def run(pythonpath: str, program: str, out: Path, *arguments: str) -> Path:
    out.mkdir()
    path = os.pathsep.join([pythonpath, str(FOLDER), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    if "TWIN_LIB64" in os.environ:
        env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    argv = [sys.executable, str(FOLDER / program), str(out), *arguments]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return out


def assert_same(name: str, before: object, after: object) -> None:
    assert type(before) is type(after), f"{name}: {before!r}, {after!r}"
    if isinstance(before, torch.Tensor):
        assert torch.equal(before, after), name
    elif isinstance(before, dict):
        assert before.keys() == after.keys(), name  # type: ignore[attr-defined]
        for key, value in before.items():
            assert_same(f"{name}: {key}", value, after[key])  # type: ignore[index]
    elif isinstance(before, list):
        assert len(before) == len(after) > 0, name  # type: ignore[arg-type]
        for n, value in enumerate(before):
            assert_same(f"{name}[{n}]", value, after[n])  # type: ignore[index]
    else:
        assert before == after, name


def assert_same_programs(before: Path, after: Path) -> None:
    """Each file: what a rank of a program computed, or the text of its exception."""
    files = sorted(path.name for path in before.glob("*.pt"))
    names = {file.split(".")[0] for file in files}
    assert len(files) == 2 * len(names) and names >= {"train_dlrm", "train_dlrm_data_parallel", "checkpoints", *REFUSED}
    differences = []
    for file in files:
        expected, got = torch.load(before / file), torch.load(after / file)
        if (reason := REFUSED.get(file.split(".")[0])) is not None:
            assert isinstance(expected, str) and reason in expected, f"{file}: {expected}"
        else:
            assert isinstance(expected, dict) and expected, f"{file} with stock torchrec: {expected}"
        try:
            assert_same(file, expected, got)
        except AssertionError as error:
            differences.append(str(error)[:300])
    assert not differences, "\n".join(differences)


def assert_same_outcomes(before: Path, after: Path, passed: int) -> None:
    expected, got = (json.loads((folder / "outcomes.json").read_text()) for folder in (before, after))
    red = [
        f"{folder.name}: {name}: {outcome}\n{(folder / f'{name}.log').read_text()[-LOGGED:]}"
        for folder, outcomes in ((before, expected), (after, got))
        for name, outcome in outcomes.items()
        if outcome != "passed" and not outcome.startswith("skipped: ")
    ]
    assert not red, "\n\n".join(red)
    assert got == expected
    assert sum(outcome == "passed" for outcome in expected.values()) >= passed


def test_same_results(upstream_tree: Path, patched: str, tmp_path: Path) -> None:
    """Unsharded modules, jagged tensors, and plans for cpu and cuda."""
    before, after = (
        torch.load(run(tree, "cpu_behaviour.py", tmp_path / name) / "results.pt")
        for name, tree in (("before", str(upstream_tree)), ("after", patched))
    )
    assert len(before) == 8
    assert_same("cpu_behaviour", before, after)


@pytest.mark.twin
def test_same_programs_and_shipped_tests(upstream_tree: Path, patched: str, tmp_path: Path) -> None:
    """Programs of upstream's examples and unit tests over gloo, and the unit tests in the wheel, one by one."""
    before = run(str(upstream_tree), "cpu_runner.py", tmp_path / "before")
    after = run(patched, "cpu_runner.py", tmp_path / "after")
    assert_same_programs(before, after)
    assert_same_outcomes(before, after, passed=20)


@pytest.mark.twin
@pytest.mark.slow  # 2 x 40 seconds more
def test_same_outcomes_of_sharding_tests(upstream_tree: Path, patched: str, tmp_path: Path) -> None:
    """The wheel's test_sharding_* of two processes, as test_model_parallel_gloo runs them upstream."""
    before = run(str(upstream_tree), "cpu_runner.py", tmp_path / "before", "--sharding")
    after = run(patched, "cpu_runner.py", tmp_path / "after", "--sharding")
    assert_same_programs(before, after)
    assert_same_outcomes(before, after, passed=24)
