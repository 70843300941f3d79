"""The closing list of failures, read from what a real pytest wrote."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from grstack import failures

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no such disk")

def test_passes(): pass
def test_sum(): assert 1 + 1 == 3
def test_setup(broken): pass
"""


def test_failures_and_errors_of_a_real_run_are_listed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    results = tmp_path / "results"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={results}/room-tests.xml"]
    assert subprocess.run([*argv, "test_it.py"], cwd=tmp_path, capture_output=True).returncode == 1
    assert [(f.suite, f.test) for f in failures.read(results)] == [
        ("room-tests", "test_it::test_sum"),
        ("room-tests", "test_it::test_setup"),
    ]
    console = Console(file=io.StringIO(), width=80)
    failures.show(results, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "assert (1 + 1) == 3" in shown and "no such disk" in shown and "test_passes()" not in shown
    assert shown.splitlines()[-2:] == [
        "room-tests: test_it::test_sum: assert (1 + 1) == 3",
        "room-tests: test_it::test_setup: OSError: no such disk",
    ]


def test_a_suite_that_was_killed_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "room.xml").write_text("<testsuites><testsuite>")
    (failure,) = failures.read(tmp_path)
    assert failure.suite == "room" and "ended early" in failure.text
