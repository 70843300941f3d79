"""The door to subprocesses: nothing stays running."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from grstack.ask import Answer, ask
from grstack.run import CommandFailed, Runner


@pytest.fixture
def runner() -> Runner:
    return Runner(Console(quiet=True))


def test_capture_gives_the_output_and_names_a_failure(runner: Runner) -> None:
    assert runner.capture(["sh", "-c", "echo out; echo err >&2"]) == "out\n"
    with pytest.raises(CommandFailed, match="exit code 3") as failed:
        runner.capture(["sh", "-c", "echo why >&2; exit 3"])
    assert failed.value.tail == ("why",)


def test_a_timeout_ends_the_whole_group(runner: Runner, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(CommandFailed, match="no answer"):
        runner.capture(["sh", "-c", f"(sleep 2; touch {mark}) & wait"], timeout=0.2)
    time.sleep(2.3)
    assert not mark.exists()


@pytest.mark.parametrize("way", ["capture", "stream"])
def test_end_all_ends_what_other_threads_wait_for(runner: Runner, tmp_path: Path, way: str) -> None:
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            if way == "capture":
                runner.capture(["sleep", "60"])
            else:
                runner.stream(["sleep", "60"], log=tmp_path / "log", show=True)
        except CommandFailed as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    runner.end_all()
    thread.join(5)
    assert not thread.is_alive() and len(failures) == 1


def test_a_stream_is_logged_and_a_failure_shows_its_last_lines(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="last words"):
        runner.stream(["sh", "-c", "echo first; echo last words; exit 1"], log=tmp_path / "a.log")
    assert "first\nlast words\n[exit 1" in (tmp_path / "a.log").read_text()


def test_a_question_may_fail_and_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert ask(["sh", "-c", "echo out; echo $A >&2; exit 3"], env={"A": "b"}) == Answer(3, "out\n", "b\n")
    missing = ask(["no-such-command-at-all"])
    assert (missing.code, missing.output) == (127, "") and "no-such-command" in missing.errors
    assert capfd.readouterr() == ("", "")
