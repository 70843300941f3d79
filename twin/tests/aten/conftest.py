"""Programs under test run in processes of their own: the loader reads LD_LIBRARY_PATH only at process start, and
after one asynchronous error the rest of a process is not trustworthy. Those of one mode share the import of torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MODES = ("override", "aclnn")
TIMEOUT = 300.0


class Program:
    """Runs one of programs/*.py on the twin; its last line of output is a JSON document."""

    def __init__(self, library_dir: str) -> None:
        self.library_dir = library_dir
        self._kept: dict[tuple[object, ...], Any] = {}
        self._of_mode: dict[str, Any] = {}

    def process(
        self, name: str, *arguments: str, mode: str = "override", **env: str
    ) -> subprocess.CompletedProcess[str]:
        libraries = [self.library_dir, os.environ.get("LD_LIBRARY_PATH", "")]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
            "TWIN_ATEN": mode,
            "OMP_NUM_THREADS": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
            **env,
        }
        argv = [str(PROGRAMS / f"{name}.py"), *arguments]
        if env:
            return subprocess.run(
                [sys.executable, *argv], env=environment, capture_output=True, text=True, timeout=TIMEOUT
            )
        if mode not in self._of_mode:
            from forked_programs import Programs  # on the path when the session has begun (conftest.py above)

            self._of_mode[mode] = Programs("torch", environment)
        return self._of_mode[mode].run(argv, TIMEOUT)

    def __call__(self, name: str, *arguments: str, mode: str = "override", **env: str) -> Any:
        done = self.process(name, *arguments, mode=mode, **env)
        assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])

    def close(self) -> None:
        for programs in self._of_mode.values():
            programs.close()

    def kept(self, name: str, *arguments: str, mode: str = "override", **env: str) -> Any:
        """What the program gave the first time that a test asked for it."""
        key = (name, arguments, mode, *sorted(env.items()))
        if key not in self._kept:
            self._kept[key] = self(name, *arguments, mode=mode, **env)
        return self._kept[key]


def library_dir() -> str:
    home = os.environ.get("ASCEND_HOME_PATH")
    directory = os.environ.get("TWIN_LIB64") or (f"{home}/lib64" if home else "")
    assert directory and Path(directory, "libopapi.so").is_file(), (
        "the twin is not built: set TWIN_LIB64 to the folder with its libraries"
    )
    return directory


@pytest.fixture(scope="session")
def twin_lib64() -> str:
    return library_dir()


@pytest.fixture(scope="session")
def program(twin_lib64: str) -> Iterator[Callable[..., Any]]:
    made = Program(twin_lib64)
    yield made
    made.close()
