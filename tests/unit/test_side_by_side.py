"""Jobs that run at once: whole pieces of output, failures by title, and an end together."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from grstack.run import CommandFailed, Runner
from grstack.side_by_side import SideBySide, beside

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def runner(out: io.StringIO) -> Runner:
    return Runner(Console(file=out, width=200))


def test_pieces_are_whole_and_failures_are_named(runner: Runner, out: io.StringIO, tmp_path: Path) -> None:
    """Both jobs print in turns, each after it has seen the other's mark; the first ends once the second's are shown."""

    def job(mine: str, other: str, code: int) -> int:
        script = (
            f"echo {mine} begins; touch {mine}; until test -e {other}; do sleep 0.01; done; "
            f"echo {mine} [goes] on; exit {code}"
        )
        try:
            runner.stream(["sh", "-c", script], log=tmp_path / f"{mine}.log", cwd=tmp_path, show=True)
        except CommandFailed as error:
            return error.code
        deadline = time.monotonic() + 60
        while f"{other} [goes] on" not in out.getvalue():
            assert time.monotonic() < deadline, f"nothing of {other} is shown"
            time.sleep(0.01)
        return 0

    jobs = {"first": lambda: job("a", "b", 0), "second": lambda: job("b", "a", 3), "third": lambda: 0}
    assert SideBySide(jobs, at_once=2, runner=runner).run() == ["second"]
    said = [line for line in out.getvalue().splitlines() if line and not line.startswith("+ ")]
    assert said == ["b begins", "b [goes] on", "a begins", "a [goes] on"]


def test_no_more_than_asked_run_at_once(runner: Runner) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def job() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return 0

    assert SideBySide({str(n): job for n in range(6)}, at_once=2, runner=runner).run() == []
    assert most == 2


def test_a_job_that_raises_ends_the_others(runner: Runner, tmp_path: Path) -> None:
    def sleeps() -> int:
        runner.stream(["sleep", "60"], log=tmp_path / "log", show=True)
        return 0

    def raises() -> int:
        time.sleep(0.3)
        raise OSError("no engine any more")

    began = time.monotonic()
    with pytest.raises(OSError, match="no engine"):
        SideBySide({"sleeps": sleeps, "raises": raises, "later": sleeps}, at_once=2, runner=runner).run()
    assert time.monotonic() - began < 20


def test_an_interruption_ends_the_commands(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from rich.console import Console\n"
        "from grstack.run import Runner; from grstack.side_by_side import SideBySide\n"
        "runner, place = Runner(Console()), Path(sys.argv[1])\n"
        "def job(n): runner.stream(['sh', '-c', f'echo $$ > {place}/{n}; exec sleep 60'], log=place / f'{n}.log')\n"
        "SideBySide({str(n): lambda n=n: job(n) for n in range(3)}, at_once=2, runner=runner).run()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    marks = [tmp_path / "0", tmp_path / "1"]
    while not all(mark.exists() and mark.read_text().strip() for mark in marks):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=30)
    assert b"KeyboardInterrupt" in said
    for mark in marks:
        with pytest.raises(ProcessLookupError):
            os.kill(int(mark.read_text()), 0)
    assert not (tmp_path / "2").exists()


def test_what_runs_beside_prints_meanwhile_and_its_error_is_raised_at_the_end(
    runner: Runner, out: io.StringIO, tmp_path: Path
) -> None:
    def job() -> None:
        runner.stream(["sh", "-c", "echo beside; exit 3"], log=tmp_path / "log", show=True)

    with pytest.raises(CommandFailed, match="exit code 3"), beside(job, runner):
        deadline = time.monotonic() + 60
        while not (tmp_path / "log").exists() or "[exit 3" not in (tmp_path / "log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        runner.console.print("the block")
    said = [line for line in out.getvalue().splitlines() if line and not line.startswith("+ ")]
    assert said == ["beside", "the block"]


def test_an_error_of_the_block_ends_what_runs_beside(runner: Runner, tmp_path: Path) -> None:
    ended: list[int] = []

    def job() -> None:
        try:
            runner.stream(["sh", "-c", "touch begun; sleep 600"], log=tmp_path / "log", cwd=tmp_path)
        except CommandFailed as error:
            ended.append(error.code)
            raise

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), beside(job, runner):
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < began + 60
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert ended == [-signal.SIGTERM] and time.monotonic() < began + 60
