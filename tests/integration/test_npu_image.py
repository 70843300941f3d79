"""The image of target npu on the twin, as its users have it: run by `docker run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.users_image import ROOT, assert_labels_and_user, docker, inv, writable_folders

IMAGE = "grstack/npu:twin"
TOOLS = "g++ gcc cc cmake ninja make makeself patch ld"
IN_IT = "/opt/grstack/src/gr_model/tests/test_metrics.py"
TRAIN = ("python", "-m", "gr_model.train", "--config", "smoke", "--device", "npu", "train.steps=2")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    inv("build-image")


def test_without_a_command_it_says_what_it_is_and_what_to_type() -> None:
    said = docker(IMAGE)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("grstack/npu: ") and "emulated: correctness, not speed" in said.stdout
    assert "torch 2.6.0" in said.stdout and "python -m gr_model.train --config smoke --device npu" in said.stdout


def test_torch_npu_is_imported_without_a_warning() -> None:
    said = docker(IMAGE, "python", "-c", "import torch_npu")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_labels_and_user() -> None:
    assert_labels_and_user(IMAGE)


@pytest.mark.parametrize("user", [(), ("--user", "4321:4321"), ("--user", "0:0")])
def test_it_trains_with_its_operators_on_a_read_only_root_as_any_user(user: tuple[str, ...], tmp_path: Path) -> None:
    inv("fetch-data", "ml-100k")
    tmp_path.chmod(0o777)
    folders = (f"--volume={ROOT / 'data'}:/data:ro", f"--volume={tmp_path}:/out")
    counts = "--env=TWIN_COUNTS=/tmp/counts.jsonl"
    words = ("--read-only", "--network=none", "--shm-size=1g", counts, *folders, *user, IMAGE)
    done = docker(*words, "sh", "-c", f"{' '.join(TRAIN)} model.attention=fused && cp /tmp/counts.jsonl /out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "HstuRelativeForward" in (tmp_path / "counts.jsonl").read_text()
    assert list(tmp_path.rglob("report.html"))


def test_its_user_can_write_only_where_it_is_told() -> None:
    assert writable_folders(IMAGE, "/usr/local/Ascend") == []


def test_it_has_no_build_tools_and_no_tests_of_ours() -> None:
    tools = docker(IMAGE, "sh", "-c", f"for tool in {TOOLS}; do command -v $tool; done; true")
    assert (tools.returncode, tools.stdout) == (0, ""), tools.stderr
    found = docker(IMAGE, "sh", "-c", "find /opt/grstack/src -name 'test_*.py'; ls /var/cache/apt /var/lib/apt/lists")
    assert found.stdout.split() == ["/var/cache/apt:", "/var/lib/apt/lists:"], found.stdout


def test_its_devel_variant_has_both_and_the_same_promises() -> None:
    inv("build-image", "--devel")
    said = docker(f"{IMAGE}-devel")
    assert said.returncode == 0 and "with compilers, build tools and the tests" in said.stdout
    tools = docker(f"{IMAGE}-devel", "sh", "-c", f"for tool in {TOOLS}; do command -v $tool; done")
    assert [Path(line).name for line in tools.stdout.split()] == TOOLS.split()
    done = docker("--read-only", f"{IMAGE}-devel", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", IN_IT)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
    user = docker(f"{IMAGE}-devel", "sh", "-c", "id -u; touch /usr/x 2>/dev/null && echo wrote")
    assert user.stdout.split() == ["1000"]


def test_root_may_install_a_package_of_operators() -> None:
    package = next((ROOT / "build/packages").glob("mxrec_opp_gather_for_rank1.run"))
    words = ("--user", "0", f"--volume={package}:/package.run:ro", IMAGE, "bash", "/package.run", "--quiet", "--force")
    done = docker(*words)
    assert done.returncode == 0, done.stdout + done.stderr
