"""Long commands: what reaches the terminal and the log, a full disk, and their end with their parent's."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from grstack.errors import DiskFull
from grstack.network import Settings
from grstack.run import CommandFailed, Runner

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings(http_proxy="http://me:s3cret@proxy.corp:3128", index_url="https://index.corp/simple")
SAYS = "echo fetching https://index.corp/simple via http://me:s3cret@proxy.corp:3128; exit 1"


def test_logs_hold_no_host_and_the_terminal_no_credential(tmp_path: Path) -> None:
    out = io.StringIO()
    runner = Runner(Console(file=out, width=300), SETTINGS)
    with pytest.raises(CommandFailed) as error:
        runner.stream(["sh", "-c", SAYS], log=tmp_path / "log", show=True)
    log = (tmp_path / "log").read_text()
    assert log.count("<http_proxy>") == 2, "the command and its output"
    assert "corp" not in log and "s3cret" not in log
    assert "index.corp" in out.getvalue(), "the user sees which index it was"
    assert "s3cret" not in out.getvalue() + str(error.value)


@pytest.mark.parametrize("said", ["tar: x: Cannot write: No space left on device", "g++: Disk quota exceeded"])
def test_a_full_disk_inside_a_command_is_said_as_such(tmp_path: Path, said: str) -> None:
    runner = Runner(Console(file=io.StringIO()))
    with pytest.raises(DiskFull) as error:
        runner.stream(["sh", "-c", f"echo '{said}' >&2; echo more; exit 2"], log=tmp_path / "log")
    assert "prune" in error.value.next_command and str(tmp_path / "log") in error.value.where
    with pytest.raises(CommandFailed):  # a user's own command in the image speaks for itself
        runner.stream(["sh", "-c", f"echo '{said}'; exit 2"], log=tmp_path / "log", show=True)


def test_a_command_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from rich.console import Console; from grstack.run import Runner\n"
        "Runner(Console()).stream(['sh', '-c', f'echo $$ > {sys.argv[1]}/pid; exec sleep 60'], "
        "log=Path(sys.argv[1]) / 'log')"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int((tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    while _runs(child):
        assert time.monotonic() < deadline, "the command outlived its parent"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


SAVING = (
    "import signal, sys, time\n"
    "def save(number, frame):\n"
    "    print('saving', flush=True); time.sleep(float(sys.argv[1]))\n"
    "    print('saved', flush=True); sys.exit(128 + number)\n"
    "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, save)\n"
    "print('training', flush=True)\n"
    "while True: time.sleep(60)\n"
)
PATIENT = (
    "import sys; from pathlib import Path; from rich.console import Console\n"
    "from grstack.run import CommandFailed, Runner, to_its_group\n"
    "argv = [sys.executable, '-c', sys.argv[1], sys.argv[2]]\n"
    "try: Runner(Console()).stream(argv, log=Path(sys.argv[3]), show=True, pass_on=to_its_group)\n"
    "except CommandFailed as error: sys.exit(error.code)\n"
    "except KeyboardInterrupt: sys.exit('forced')\n"
)


def _patient(seconds: float, log: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", PATIENT, SAVING, str(seconds), str(log)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _shows(process: subprocess.Popen[str], wanted: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == wanted:
            return
    pytest.fail(f"ended before it showed {wanted}: {process.stderr and process.stderr.read()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_saves_is_asked_and_waited_for(tmp_path: Path, number: signal.Signals) -> None:
    """For longer than the five seconds that a command has which is simply ended."""
    process = _patient(6, tmp_path / "log")
    _shows(process, "training")
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "ending; a second Ctrl-C ends it at once" in out and out.splitlines()[-1] == "saved"


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    process = _patient(60, tmp_path / "log")
    _shows(process, "training")
    process.send_signal(signal.SIGINT)
    _shows(process, "saving")
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert "forced" in errors and "saved" not in out and time.monotonic() - begun < 30
