"""Programs of tests that share one import (tests/start/forked_programs.py) are as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[1] / "start"
sys.path.append(str(START))

from forked_programs import Programs  # noqa: E402

PROGRAM = """
import atexit, os, signal, sys, time
import heavy, near
print(__name__, sys.argv, os.environ["OF_ALL"], heavy.pid != os.getpid(), near.__name__, sys.stdin.read())
print("to stderr", file=sys.stderr)
atexit.register(print, "the end")
heavy.seen.append(1)
print(len(heavy.seen))
match sys.argv[1]:
    case "exits": sys.exit(3)
    case "raises": raise ValueError("so it was meant")
    case "dies": os.kill(os.getpid(), signal.SIGKILL)
    case "stays": time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "heavy.py").write_text("import os\npid = os.getpid()\nseen = []\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/program.py").write_text(PROGRAM)
    (tmp_path / "own/near.py").write_text("")
    return tmp_path


@pytest.fixture(params=["forked", "alone"])
def programs(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.delenv("GRSTACK_NPUS", raising=False)
    monkeypatch.setenv("GRSTACK_FORK_RANKS", "0" if request.param == "alone" else "1")
    made = Programs("heavy", {**os.environ, "PYTHONPATH": str(folder), "OF_ALL": "both"})
    assert made.forks == (request.param == "forked")
    yield made
    made.close()


def test_each_is_as_a_process_of_its_own(programs: Programs, folder: Path) -> None:
    program = str(folder / "own/program.py")
    for word, code, last, error in (
        ("ends", 0, "the end", "to stderr\n"),
        ("exits", 3, "the end", "to stderr\n"),
        ("raises", 1, "the end", "ValueError: so it was meant\n"),
        ("dies", -9, None, "to stderr\n"),
    ):
        done = programs.run([program, word], timeout=60)
        assert done.returncode == code, done.stderr
        assert done.stderr.endswith(error)
        if last:  # who is killed says nothing more of what it kept
            first, number, end = done.stdout.splitlines()
            assert first == f"__main__ {[program, word]} both {programs.forks} near " and (number, end) == ("1", last)


def test_one_has_variables_of_its_own_and_the_next_has_not(programs: Programs, folder: Path) -> None:
    program = folder / "own/variables.py"
    program.write_text("import ctypes, os\nget = ctypes.CDLL(None).getenv\nget.restype = ctypes.c_char_p\n")
    with program.open("a") as file:
        file.write("print(get(b'OF_ALL'), get(b'OF_ONE'), os.environ.get('OF_ALL'), os.environ.get('OF_ONE'))\n")
    cases: list[tuple[dict[str, str | None], str]] = [
        ({"OF_ONE": "mine"}, "b'both' b'mine' both mine\n"),
        ({"OF_ALL": None}, "None None None None\n"),
        ({}, "b'both' None both None\n"),
    ]
    for variables, printed in cases:
        done = programs.run([str(program)], 60, variables)
        assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_one_that_does_not_end_is_ended_and_the_next_runs(programs: Programs, folder: Path) -> None:
    program = str(folder / "own/program.py")
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run([program, "stays"], timeout=1)
    assert programs.run([program, "ends"], timeout=60).returncode == 0


def test_an_import_that_fails_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRSTACK_NPUS", raising=False)
    monkeypatch.delenv("GRSTACK_FORK_RANKS", raising=False)
    programs = Programs("absent", {**os.environ, "PYTHONPATH": str(folder)})
    with pytest.raises((AssertionError, BrokenPipeError)):
        programs.run([str(folder / "own/program.py"), "ends"], timeout=60)
