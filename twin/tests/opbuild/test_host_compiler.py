"""Which g++ builds operators: the first that knows half, by stubs that say their version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OPBUILD = Path(__file__).resolve().parents[2] / "opbuild/opbuild.py"
sys.path.insert(0, str(OPBUILD.parent))

import host_compiler  # noqa: E402


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(host_compiler.COMPILER, raising=False)
    return tmp_path


def put(folder: Path, name: str, version: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"g++": "12.2.0"}, "g++"),
        ({"g++": "11.4.0", "g++-12": "12.3.0"}, "g++-12"),
        ({"g++": "9.4.0", "g++-13": "13.1.0", "g++-14": "14.1.0"}, "g++-13"),
        ({"g++": "14", "g++-12": "12.3.0"}, "g++"),
    ],
)
def test_the_first_that_is_new_enough(programs: Path, there: dict[str, str], chosen: str) -> None:
    for name, version in there.items():
        put(programs, name, version)
    assert host_compiler.find() == chosen


def test_the_one_that_is_named(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "g++", "12.2.0")
    monkeypatch.setenv(host_compiler.COMPILER, str(put(programs, "mine", "13.1.0")))
    assert host_compiler.find() == str(programs / "mine")
    monkeypatch.setenv(host_compiler.COMPILER, str(put(programs, "old", "11.4.0")))
    with pytest.raises(host_compiler.CompilerError, match="old is 11.4.0 on this machine; next: apt-get install"):
        host_compiler.find()


def test_an_old_one_alone_ends_a_build_at_its_begin(programs: Path) -> None:
    put(programs, "g++", "11.4.0")
    argv = [sys.executable, str(OPBUILD), "--op", ".", "--out", "out", "--vendor", "mine", "--ascend-home", "."]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=programs)
    assert done.returncode == 2
    assert done.stderr == (
        "opbuild: kernels' half needs g++ 12 or later: g++ is 11.4.0 on this machine; "
        "next: apt-get install g++-12, or TWIN_CXX=PROGRAM\n"
    )
