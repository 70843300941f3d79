"""Tests of the twin's runtime libraries. TWIN_LIB64 names their folder (default: where the image has them).

Each scenario runs in a process of its own: after an asynchronous error a process cannot be trusted, and the exit
of a process is itself under test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IMAGE_LIB64 = "/usr/local/Ascend/ascend-toolkit/latest/lib64"
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
def module_scenario(lib64: Path) -> Scenario:
    """The same, for fixtures of a module."""

    def run(text: str, *, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TWIN_", "ASCEND_", "TASK_QUEUE"))}
        path = os.pathsep.join(filter(None, [str(HERE), clean.get("PYTHONPATH")]))
        settings = {"LD_LIBRARY_PATH": str(lib64), "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            env={**clean, **settings},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        shown = f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{shown}"
        return done

    return run
