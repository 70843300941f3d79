"""The grid of torchrec's own sharding tests: a dozen of its cases, what it says when something is wrong, its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parents[1]
DOCS = RECIPE.parents[1] / "docs/generated"
sys.path.insert(0, str(RECIPE))

from grid import report  # noqa: E402
from grid.cases import KERNELS, OPTIMIZERS, OPTIONS, SHARDINGS, Case, full, representative  # noqa: E402


def start(patched: str, *argv: str, **settings: str) -> subprocess.CompletedProcess[str]:
    paths = ":".join(filter(None, [patched, str(RECIPE), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **settings}
    return subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.twin
@pytest.mark.npus(max(case.world for case in representative()))
def test_a_dozen_cases_pass(patched: str, tmp_path: Path) -> None:
    done = start(patched, "-m", "grid", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(representative())} pass, 0 fail, 0 do not apply" in done.stdout
    again = start(patched, "-m", "grid", "--output", str(tmp_path))  # nothing is left to run
    assert again.stdout.splitlines() == done.stdout.splitlines()[-1:]


def test_the_dozen_meets_everything() -> None:
    cases = representative()
    assert {case.sharding for case in cases} == set(SHARDINGS)
    assert {case.kernel for case in cases} == {"dense", "fused"}  # those that NPUs have
    assert {case.optimizer for case in cases} == set(OPTIMIZERS)
    assert {case.option for case in cases} >= set(OPTIONS) - {"constant_batch_by_feature"}
    assert {case.world for case in cases} == {2, 4}
    assert set(cases) <= set(full())
    assert {case.kernel for case in full()} == set(KERNELS)


SUMS = "[{'total': tensor([3.]), 'half': tensor([3.])}, {'total': tensor([3.]), 'half': tensor([3.])}]"


@pytest.fixture(scope="module")
def faults(patched: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("faults")
    program = str(Path(__file__).with_name("grid_faults.py"))
    done = start(patched, program, str(folder), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("sums", SUMS),
        ("robbed", SUMS),
        ("raises", "ValueError: on purpose"),
        ("aborts", "the process ended with SIGABRT"),
        ("hangs", "no answer from ranks [0, 1] within 4 s"),
        ("right", "pass"),
        ("wrong", "AssertionError: Tensor-likes are not close!"),
    ],
)
def test_a_fault_is_told(faults: dict[str, str], what: str, text: str) -> None:
    assert faults[what].startswith(text)


def off(absolute: str, relative: str) -> str:
    return (
        "AssertionError: Tensor-likes are not close! Mismatched elements: 8 / 8 (100.0%) "
        f"Greatest absolute difference: {absolute} at index (3, 0) (up to 1e-05 allowed) "
        f"Greatest relative difference: {relative} at index (2, 0) (up to 1.3e-06 allowed)"
    )


@pytest.mark.parametrize(
    ("npu", "cpu", "outcome"),
    [
        ("", "", "pass"),
        ("IndexError: Dimension out of range", "", "fail"),
        ("IndexError: Dimension out of range", "ValueError: Dimension out of range", "fail"),
        ("AssertionError: Tensor-likes are not close!", "AssertionError: Optimizer adam is not supported", "fail"),
        ("AssertionError: index (1, 0) on npu:3", "AssertionError: index (0, 2) on cpu:0", "not applicable"),
        (off("3.00e-05", "1e-3"), off("3.01e-05", "1e-3"), "not applicable"),
        (off("inf", "nan"), off("inf", "nan"), "not applicable"),
        (off("1e-3", "1e-3"), off("3e-05", "1e-3"), "fail"),
        (off("3e-05", "1"), off("3e-05", "1e-3"), "fail"),
        (off("3e-05", "nan"), off("3e-05", "1e-3"), "fail"),
    ],
)
def test_only_the_same_error_of_the_same_size_on_the_cpu_excuses(npu: str, cpu: str, outcome: str) -> None:
    assert report.outcome(npu, cpu) == outcome


def test_the_page_is_what_the_results_give() -> None:
    results, about = report.read(DOCS)
    assert report.page(results, about) == (DOCS / "torchrec-grid.md").read_text()
    assert [result.case for result in results] == [case.name for case in full()]


def test_what_the_committed_results_hold() -> None:
    """No case fails on NPUs only whose kernel NPUs have, and none is excused by another error on the CPU."""
    results, _ = report.read(DOCS)
    failed = [result for result in results if result.outcome == "fail"]
    assert all(Case.of(result.case).kernel not in ("dense", "fused") and result.npu for result in failed)
    assert all(result.outcome == report.outcome(result.npu, result.cpu) for result in results)
    assert sum(result.outcome == "pass" for result in results) > 100
