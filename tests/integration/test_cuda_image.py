"""The image of target cuda on a machine without a GPU: built and smoke-tested by the commands, run by `docker run`."""

from __future__ import annotations

import json

import pytest

from tests.integration.users_image import (
    ROOT,
    assert_labels_and_user,
    docker,
    inv,
    modules_without_tests,
    writable_folders,
)

IMAGE = "grstack/cuda:cuda"
TRAIN = ("python", "-m", "gr_model.train", "--config", "smoke", "--device", "cpu", "train.steps=2")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    inv("build-image", "--target", "cuda")


def test_the_smoke_test_passes_and_skips_what_needs_a_gpu() -> None:
    inv("smoke-test", "--target", "cuda", "--devices", "none")
    report = json.loads((ROOT / "build/smoke/smoke-report.json").read_text())
    skipped = {check["check"]: check["outcome"]["summary"] for check in report["checks"] if check["skipped"]}
    assert report["passed"] and report["image"]["target"] == "cuda"
    assert skipped == {"losses": "skipped: no GPU"}


def test_without_a_command_it_says_what_it_is() -> None:
    said = docker(IMAGE)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("grstack/cuda: ") and "torch 2.8.0" in said.stdout and "torchrec 1.3.0" in said.stdout


def test_labels_and_user() -> None:
    assert_labels_and_user(IMAGE)


def test_its_user_can_write_only_where_it_is_told() -> None:
    assert writable_folders(IMAGE, "/opt/grstack/triton") == []


def test_fbgemm_is_imported_where_no_driver_is() -> None:
    code = (
        "import fbgemm_gpu, torchrec, tensordict, pandas, sklearn, triton, gr_ops, hybrid_torchrec, torchrec_embcache"
    )
    done = docker("--network=none", IMAGE, "python", "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_stand_in_gives_way_to_the_driver_s_own_library() -> None:
    """Which the loader knows by its cache: here the stand-in itself, under a folder of the loader."""
    shown = ("sh", "-c", "echo $LD_LIBRARY_PATH")
    assert docker(IMAGE, *shown).stdout.strip() == "/opt/grstack/no-driver"
    entry = "cp /opt/grstack/no-driver/libnvidia-ml.so.1 /usr/lib && ldconfig && sh /opt/grstack/bin/entrypoint"
    done = docker("--user=0", "--entrypoint=sh", IMAGE, "-c", f"{entry} sh -c 'echo \"<$LD_LIBRARY_PATH>\"'")
    assert done.stdout == "<>\n", done.stderr


def test_the_kernels_for_hopper_have_a_compiler_of_their_own() -> None:
    """Beside the Triton that PyTorch pins, which stays the one that programs import."""
    code = "import triton; from triton.experimental import gluon; print(triton.__version__, triton.__file__)"
    ours = docker("--network=none", IMAGE, "sh", "-c", f'PYTHONPATH=$GR_OPS_TRITON python -c "{code}"')
    assert ours.stdout == "3.6.0 /opt/grstack/triton/triton/__init__.py\n", ours.stderr
    assert docker("--network=none", IMAGE, "python", "-c", code).stdout.startswith("3.4.0 /opt/grstack/venv/")


def test_it_compiles_them_without_a_gpu() -> None:
    done = docker("--read-only", "--network=none", IMAGE, "python", "-m", "gr_ops.cuda.cubins")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_no_package_of_tests() -> None:
    assert modules_without_tests(IMAGE) > 300


@pytest.mark.parametrize("user", [(), ("--user", "4321:4321")])
def test_it_trains_on_a_read_only_root_as_any_user(user: tuple[str, ...]) -> None:
    inv("fetch-data", "ml-100k")
    data = f"--volume={ROOT / 'data'}:/data:ro"
    done = docker("--read-only", "--network=none", "--shm-size=1g", data, *user, IMAGE, *TRAIN)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_the_compiler_that_triton_calls_and_no_other_build_tool() -> None:
    c = "int main(void) { return 0; }"
    done = docker(
        IMAGE, "sh", "-c", f"echo '#include <Python.h>\n{c}' | gcc -x c - -I/usr/include/python3.11 -o /tmp/a && /tmp/a"
    )
    assert done.returncode == 0, done.stderr
    tools = docker(IMAGE, "sh", "-c", "for tool in g++ cmake ninja make makeself; do command -v $tool; done; true")
    assert (tools.returncode, tools.stdout) == (0, ""), tools.stderr
