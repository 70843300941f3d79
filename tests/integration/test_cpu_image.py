"""The image of target cpu, as its users have it: built and smoke-tested by the commands, run by `docker run`."""

from __future__ import annotations

import json
import time

import pytest

from tests.integration.users_image import (
    ROOT,
    assert_labels_and_user,
    docker,
    inv,
    modules_without_tests,
    writable_folders,
)

IMAGE = "grstack/cpu:cpu"
TRAIN = ("python", "-m", "gr_model.train", "--config", "smoke", "--device", "cpu", "train.steps=2")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    inv("build-image", "--target", "cpu")


def test_the_smoke_test_passes_with_no_check_of_an_npu() -> None:
    inv("smoke-test", "--target", "cpu")
    report = json.loads((ROOT / "build/smoke/smoke-report.json").read_text())
    names = [check["check"] for check in report["checks"]]
    assert report["passed"] and report["image"]["target"] == "cpu" and not report["emulated"]
    assert "kernels" in names and "collectives" in names and "operators" not in names


def test_built_again_unchanged_takes_no_time() -> None:
    begin = time.monotonic()
    inv("build-image", "--target", "cpu")
    took = time.monotonic() - begin
    report = json.loads((ROOT / "build/build-report.json").read_text())
    assert {step["status"] for step in report["steps"]} == {"kept"}
    print(f"unchanged: {took:.1f} s")  # no test asserts a time: the machine may be busy


def test_inv_run_runs_in_it() -> None:
    inv("run", "--target", "cpu", "python -c 'import torch, gr_ops; assert not gr_ops.npu_loaded()'")


def test_without_a_command_it_says_what_it_is_and_what_to_type() -> None:
    said = docker(IMAGE)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("grstack/cpu: ") and "torch 2.6.0" in said.stdout
    assert "python -m gr_model.train --config smoke --device cpu" in said.stdout


def test_labels_and_user() -> None:
    assert_labels_and_user(IMAGE)


@pytest.mark.parametrize("user", [(), ("--user", "4321:4321")])
def test_it_trains_on_a_read_only_root_as_any_user(user: tuple[str, ...]) -> None:
    inv("fetch-data", "ml-100k")
    data = f"--volume={ROOT / 'data'}:/data:ro"
    done = docker("--read-only", "--network=none", "--shm-size=1g", data, *user, IMAGE, *TRAIN)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_user_can_write_only_where_it_is_told() -> None:
    assert writable_folders(IMAGE) == []


def test_its_devel_variant_has_a_compiler_which_torch_calls() -> None:
    inv("build-image", "--target", "cpu", "--devel")
    inv("fetch-data", "ml-100k")
    data = f"--volume={ROOT / 'data'}:/data:ro"
    compiled = (*TRAIN, "model.compile=true")
    done = docker("--read-only", "--network=none", "--shm-size=1g", data, f"{IMAGE}-devel", *compiled)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = docker("--network=none", "--shm-size=1g", data, IMAGE, *compiled)
    assert refused.returncode == 1 and "take the devel variant of the image" in refused.stderr


def test_packages_of_tests_are_in_the_devel_variant_alone() -> None:
    assert modules_without_tests(IMAGE) > 300
    inv("build-image", "--target", "cpu", "--devel")
    file = "/opt/grstack/src/gr_model/tests/test_metrics.py"
    words = ("--network=none", f"{IMAGE}-devel", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", file)
    done = docker(*words)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
    versions = docker(f"{IMAGE}-devel", "python", "-c", "import hypothesis, pytest; print(hypothesis.__name__)")
    assert versions.stdout == "hypothesis\n", versions.stderr


def test_it_has_no_build_tools_and_nothing_of_an_npu_or_a_gpu() -> None:
    tools = docker(IMAGE, "sh", "-c", "for tool in g++ gcc cc cmake ninja make ld; do command -v $tool; done; true")
    assert (tools.returncode, tools.stdout) == (0, ""), tools.stderr
    listed = docker(IMAGE, "sh", "-c", "ls /opt/grstack/venv/lib/python3*/site-packages /usr/local").stdout.split()
    assert {"torch", "gr_ops", "torchrec_embcache"} <= set(listed)
    assert not {"torch_npu", "triton", "Ascend"} & set(listed)
