"""Runs each check in a process of its own, so that a crash or a hang is one failed check and not a lost report."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoke_tests.check import Check, CheckFailed, CheckSkipped, Context, Outcome

TAIL = 25  # lines of output that a report keeps of a failed check
POLL = 0.1  # seconds


@dataclass(frozen=True)
class Result:
    check: str
    claim: str
    passed: bool
    seconds: float
    outcome: Outcome
    skipped: bool = False  # neither passed nor failed

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def run_check(check: Check, arguments: Sequence[str], scratch: Path, end: threading.Event) -> Result:
    """`arguments` are the command line of smoke_tests; the child gets them again with --worker. `end`, set by another
    thread, ends the child."""
    result_file = scratch / f"{check.name}.json"
    result_file.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "smoke_tests", *arguments, "--worker", check.name, "--result", str(result_file)]
    # Threads that wait must not take the core from those that work: two cores also carry the twin's device threads.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            while (code := process.poll()) is None and time.monotonic() - begin < check.time_limit:
                if end.wait(POLL):
                    break
        finally:
            _end_group(process)
        log.seek(0)
        tail = log.read().splitlines()[-TAIL:]
    seconds = time.monotonic() - begin
    passed, outcome = judge(code, result_file, tail, check.time_limit)
    return Result(check.name, check.claim, passed, seconds, outcome, outcome.skipped)


def skip(check: Check, reason: str) -> Result:
    return Result(check.name, check.claim, False, 0.0, Outcome(f"skipped: {reason}", skipped=True), skipped=True)


def judge(code: int | None, result_file: Path, tail: list[str], limit: float) -> tuple[bool, Outcome]:
    """A pass needs both a clean exit and a result that says so: a crash at exit is a failure too."""
    if code is None:
        return False, Outcome(f"no end after {limit:g} s", tail)
    try:
        written = json.loads(result_file.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False, Outcome(f"the process ended with {_exit(code)} before it had a result", tail)
    outcome = Outcome(**written["outcome"])
    if (written["passed"] or outcome.skipped) and code != 0:
        summary = f"{'skipped' if outcome.skipped else 'held'}, but the process ended with {_exit(code)}"
        return False, dataclasses.replace(outcome, summary=summary, details=tail, skipped=False)
    return written["passed"], outcome


def work(check: Check, context: Context, result_file: Path) -> int:
    """The child's side."""
    try:
        passed, outcome = True, check.run(context)
    except CheckSkipped as reason:
        passed, outcome = False, Outcome(f"skipped: {reason}", skipped=True)
    except CheckFailed as failure:
        passed, outcome = False, Outcome(str(failure), failure.details)
    except Exception as error:
        traceback.print_exc()
        lines = traceback.format_exc().splitlines()[-TAIL:]
        passed, outcome = False, Outcome(f"{type(error).__name__}: {error}", lines)
    result_file.write_text(json.dumps({"passed": passed, "outcome": dataclasses.asdict(outcome)}))
    return 0 if passed or outcome.skipped else 1


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also children that the check may have left
    process.wait()


def _exit(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
