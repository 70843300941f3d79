"""The pytest plugin of the wheel: a failure on the device belongs to the test that caused it."""

from __future__ import annotations

import re
import textwrap
import zipfile
from pathlib import Path

import pytest

from conftest import Environment

pytestmark = pytest.mark.twin

TESTS = """
    import pytest, torch, torch_npu
    import torch.nn.functional as F

    def lookup(row):
        return F.embedding(torch.tensor([row]).npu(), torch.ones(3, 4).npu())

    def test_a_leaves_a_failure_behind():
        lookup(7)

    def test_b_is_not_told_of_it():
        assert (torch.ones(4).npu() + 1).tolist() == [2.0] * 4

    def test_c_expects_the_failure():
        lookup(7)
        with pytest.raises(RuntimeError, match="507015"):
            torch.npu.synchronize()

    def test_d_sees_the_failure_itself():
        lookup(7)
        torch.npu.synchronize()

    @pytest.fixture
    def broken():
        yield
        lookup(7)

    def test_e_has_a_fixture_that_fails(broken):
        pass

    def test_f_is_sound():
        assert lookup(1).tolist() == [[1.0] * 4]

    def test_g_calls_what_is_missing():
        torch_npu.npu_mish(torch.ones(4).npu())

    def test_h_is_sound():
        assert (torch.ones(4).npu() + 1).tolist() == [2.0] * 4
"""


def run(environment: Environment, *options: str, code: int, **variables: str) -> tuple[dict[str, str], str]:
    """What became of each test, and everything that pytest printed."""
    folder = environment.home / "tests"
    folder.mkdir(exist_ok=True)
    (folder / "test_theirs.py").write_text(textwrap.dedent(TESTS))
    pytest_there = ("python", "-m", "pytest", "-v", "-p", "no:cacheprovider", *options, str(folder))
    done = environment.twin("run", "--aten", "aclnn", *pytest_there, code=code, **variables)
    outcomes = dict(re.findall(r"::test_(\w)_\w+ (PASSED|FAILED|ERROR)\b", done.stdout))
    return outcomes, done.stdout


def test_a_failure_fails_its_own_test_and_no_other(environment: Environment) -> None:
    outcomes, shown = run(environment, code=1)
    assert "TASK_QUEUE_ENABLE=0" in shown
    # e passed, then its fixture's teardown failed
    wanted = {"a": "FAILED", "b": "PASSED", "c": "PASSED", "d": "FAILED", "e": "ERROR", "f": "PASSED", "g": "FAILED"}
    assert outcomes == {**wanted, "h": "PASSED"}, shown
    assert "an operator failed on the device after its call" in shown
    assert "aclnnEmbedding: index out of range" in shown


def test_without_the_plugin_the_next_tests_fail(environment: Environment) -> None:
    outcomes, shown = run(environment, "-p", "no:ascend_twin", code=1, TASK_QUEUE_ENABLE="0")
    assert "TASK_QUEUE_ENABLE" not in shown.splitlines()[1]
    assert outcomes["a"] == "PASSED", shown
    assert outcomes["b"] == outcomes["f"] == outcomes["h"] == "FAILED", shown


def test_a_lost_task_queue_ends_the_session(environment: Environment) -> None:
    outcomes, shown = run(environment, "-k", "test_g or test_h", code=2, TASK_QUEUE_ENABLE="1")
    assert outcomes == {"g": "FAILED"}, shown
    assert "run the tests with TASK_QUEUE_ENABLE=0" in shown


def test_the_plugin_is_found_by_its_entry_point(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        text = archive.read(name).decode()
    assert "[console_scripts]\nascend-twin = ascend_twin.__main__:main\n" in text
    assert "[pytest11]\nascend_twin = ascend_twin.pytest_plugin\n" in text


COMPILE = """
import torch
def double(x):
    return torch.sin(x) * 2
x = torch.ones(8).npu()
for backend in ("eager", "aot_eager"):
    assert torch.allclose(torch.compile(double, backend=backend)(x).cpu(), double(torch.ones(8)))
    torch._dynamo.reset()
try:
    torch.compile(double)(x)
except Exception as error:
    print(error)
"""


def test_the_default_back_end_of_compile_is_refused_with_what_works(environment: Environment) -> None:
    done = environment.twin("run", "python", "-c", COMPILE)
    assert "back end 'inductor' is not emulated" in done.stdout, done.stdout
    assert "backend='aot_eager'" in done.stdout
    assert "active drivers" not in done.stdout


def test_a_chip_that_does_not_exist_is_told_at_the_start(environment: Environment) -> None:
    done = environment.twin("run", "--soc", "Ascend310P3", "python", "-c", "print('started')", code=1)
    assert "started" not in done.stdout
    told = "--soc 'Ascend310P3' is not one of Ascend910B1 Ascend910B2 Ascend910B3 Ascend910B4"
    assert done.stderr.count("is not one of") == 1 and told in done.stderr
    assert done.stderr.endswith("\nnext: python -m ascend_twin run --help\n")
    done = environment.twin("run", "true", code=1, TWIN_NPU_SOC="Ascend310P3")
    assert "TWIN_NPU_SOC='Ascend310P3' is not one of" in done.stderr


def test_more_ranks_than_devices_are_told_the_setting(environment: Environment) -> None:
    done = environment.twin("run", "python", "-c", "import torch; torch.npu.set_device(2)", code=1)
    assert "TWIN_NPU_COUNT=3" in done.stderr, done.stderr
