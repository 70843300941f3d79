"""Plugin tests run in the npu image. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 those of the CPU kernels run anywhere."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

HAS_NPU = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "twin: needs the twin's runtime")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.twin)


@pytest.fixture(scope="session", autouse=True)
def plugin() -> None:
    import gr_ops

    if HAS_NPU:
        import torch_npu  # noqa: F401

        gr_ops.load()
        assert gr_ops.npu_loaded()


@pytest.fixture(autouse=True)
def faults_of_this_test_alone() -> Iterator[None]:
    """What a test gave to kernels on purpose is not raised in the next one."""
    yield
    import torch

    if HAS_NPU:
        torch.ops.mxrec.copy_fault_records()
        for _ in range(100):  # each report of a bounds check is an error of its own
            with suppress(RuntimeError):
                torch.ops.mxrec.raise_faults(True)
                return
        raise AssertionError("more faults than a test can have meant")


@pytest.fixture(params=["cpu", "npu:0"] if HAS_NPU else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Each back end that this environment has."""
    return request.param


@pytest.fixture
def each_device(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test that places its tensors on the module's DEVICE once for each back end."""
    monkeypatch.setattr(request.module, "DEVICE", device)


@pytest.fixture
def fresh_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a process of its own: variables are read once, and an asynchronous error is final."""

    def run(script: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
        for name, value in variables.items():
            if value is None:
                environment.pop(name, None)
        command = [sys.executable, "-c", textwrap.dedent(script)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture(scope="session")
def forked_process(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The same, forked behind the import of torch_npu: for variables that a device's first use or gr_ops reads."""
    from forked_programs import Programs  # on the path when the session has begun (conftest.py above)

    programs = Programs("torch,torch_npu", os.environ)
    program = tmp_path_factory.mktemp("forked") / "program.py"

    def run(script: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        program.write_text(textwrap.dedent(script))
        return programs.run([str(program)], 300, variables)

    yield run
    programs.close()
