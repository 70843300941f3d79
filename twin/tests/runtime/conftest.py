"""Tests of the twin's runtime libraries. TWIN_LIB64 names their folder (default: where the image has them).

Each scenario runs in a process of its own: after an asynchronous error a process cannot be trusted, and the exit
of a process is itself under test. Those that use torch_npu are forked behind its import, which calls nothing of the
runtime: the variables of READ_LATER are read by the first use of a device.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IMAGE_LIB64 = "/usr/local/Ascend/ascend-toolkit/latest/lib64"
READ_LATER = {
    "TASK_QUEUE_ENABLE",
    "TWIN_ATEN",
    "TWIN_COMPUTE",
    "TWIN_COUNTS",
    "TWIN_LOG",
    "TWIN_NPU_MEMORY",
    "TWIN_STREAMS",
}
TIMEOUT = 300  # seconds; `import torch` alone takes many on a loaded machine

Scenario = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def lib64() -> Path:
    folder = Path(os.environ.get("TWIN_LIB64", IMAGE_LIB64)).resolve()
    if not (folder / "libascendcl.so").is_file():
        pytest.fail(f"{folder} has no libascendcl.so; build recipes/twin, or set TWIN_LIB64 to a build's lib64")
    return folder


@pytest.fixture
def scenario(module_scenario: Scenario) -> Scenario:
    """Runs Python text with the twin's libraries; checks the exit code and gives back what was printed."""
    return module_scenario


@pytest.fixture(scope="session")
def settings(lib64: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TWIN_", "ASCEND_", "TASK_QUEUE"))}
    path = os.pathsep.join(filter(None, [str(HERE), clean.get("PYTHONPATH")]))
    return {**clean, "LD_LIBRARY_PATH": str(lib64), "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@pytest.fixture(scope="session")
def forked(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs a text behind the import, with variables."""
    from forked_programs import Programs  # on the path when the session has begun (conftest.py above)

    programs = Programs("torch,torch_npu", settings)
    program = tmp_path_factory.mktemp("forked") / "program.py"

    def run(text: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        program.write_text(text)
        return programs.run([str(program)], TIMEOUT, variables)

    yield run
    programs.close()


@pytest.fixture(scope="session")
def module_scenario(settings: dict[str, str], forked: Callable[..., subprocess.CompletedProcess[str]]) -> Scenario:
    """The same, for fixtures of a module. alone: the program's own import is under test."""

    def run(text: str, *, code: int = 0, alone: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        program = textwrap.dedent(text)
        plain = "from acl import" in program  # without torch
        if environment.keys() <= READ_LATER and not plain and not alone:
            done = forked(program, environment)
        else:
            done = subprocess.run(
                [sys.executable, "-c", program],
                env={**settings, **environment},
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        shown = f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{shown}"
        return done

    return run
