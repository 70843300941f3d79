"""The door for commands that do work: echoed, logged, timed, ended with their children. Questions: grstack.ask."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from grstack.errors import DiskFull, StepError
from grstack.network import Settings

TAIL = 40
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|\bENOSPC\b")
Process = subprocess.Popen[str]
PassOn = Callable[[Process, int], None]  # hands a signal to what a command runs
_PR_SET_PDEATHSIG = 1  # prctl(2)
# found before it is needed: between fork and exec other threads' locks are never released
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class CommandFailed(StepError):
    """`title` stands for a command line that is too long to be read; the log has the line itself."""

    def __init__(
        self, argv: Sequence[str], code: int, tail: Sequence[str], log: Path | None, *, title: str = ""
    ) -> None:
        indented = "\n".join(f"    {line}" for line in tail)
        super().__init__(
            f"command failed with exit code {code}: {title or shlex.join(argv)}\n{indented}",
            where=f"full log: {log}" if log else "",
            next_command=f"less {shlex.quote(str(log))}" if log else "inv doctor",
        )
        self.code = code
        self.tail = tuple(tail)


class Runner:
    """`settings` keep credentials off the terminal, and the hosts of this machine's network out of the logs."""

    def __init__(self, console: Console, settings: Settings | None = None) -> None:
        self.console = console
        self._running: set[subprocess.Popen[str]] = set()
        self.settings = settings or Settings()
        self._private: dict[str, str] = {}

    def capture(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 60) -> str:
        """Runs a short command quietly and returns its output. Several threads may do so at once."""
        try:
            process = subprocess.Popen(
                list(argv),
                env=_environment(env),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise CommandFailed(argv, 127, [f"{argv[0]}: not found"], None) from error
        self._running.add(process)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise CommandFailed(argv, 124, [f"no answer within {timeout:.0f} s"], None) from error
        except BaseException:
            _end(process)
            raise
        finally:
            self._running.discard(process)
        if process.returncode:
            raise CommandFailed(argv, process.returncode, (output + errors).splitlines()[-TAIL:], None)
        return output

    def end_all(self) -> None:
        """Ends what other threads wait for: their calls fail, so that the threads end too."""
        for process in tuple(self._running):
            _end(process)

    def keep_private(self, name: str, hosts: Iterable[str]) -> None:
        """More hosts that no log may hold; `name` stands there in their place."""
        self._private |= {host: f"<{name}>" for host in hosts if host}

    def _conceal(self, text: str) -> str:
        for host, name in self._private.items():
            text = text.replace(host, name)
        return self.settings.conceal(text)

    def stream(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        show: bool = False,
        title: str = "",
        pass_on: PassOn | None = None,
    ) -> None:
        """Runs a long command. Its output goes to `log`, its last line to the terminal; `show` prints all of it.

        The terminal sees `title`, if there is one, in place of the command line. Several threads may do so at once,
        into logs of their own; the terminal's last line is the main thread's.

        With `pass_on` the first Ctrl-C or SIGTERM goes to the command, which has the time that it takes to end: a
        training saves. A second ends it at once, as the first does otherwise. For the main thread alone.
        """
        redact, conceal = self.settings.redact, self._conceal
        typed = f"{title}   (log: {os.path.relpath(log)})" if title else shlex.join(argv)
        self.console.print(Text(redact(f"+ {typed}"), style="dim"), soft_wrap=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        tail: deque[str] = deque(maxlen=TAIL)
        started = time.monotonic()
        with log.open("a", encoding="utf-8") as sink:
            sink.write(conceal(f"+ {shlex.join(argv)}\n"))
            try:
                process = subprocess.Popen(
                    list(argv),
                    cwd=cwd,
                    env=_environment(env),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            except FileNotFoundError as error:
                raise CommandFailed(argv, 127, [f"{argv[0]}: not found"], log, title=title) from error
            assert process.stdout is not None
            self._running.add(process)
            try:
                with self._passing_on(process, pass_on), self._progress(show) as live:
                    for line in process.stdout:
                        sink.write(conceal(line))
                        line = redact(line)
                        tail.append(line.rstrip())
                        if show:
                            self.console.print(Text(line.rstrip()), soft_wrap=True)
                        elif live is not None:
                            live.update(Spinner("dots", Text(line.strip()[: self.console.width - 8], style="dim")))
                code = process.wait()
            except BaseException:
                _end(process)
                raise
            finally:
                self._running.discard(process)
            sink.write(f"[exit {code}, {time.monotonic() - started:.1f} s]\n")
        if code and not show and any(_DISK_FULL.search(line) for line in tail):
            raise DiskFull(
                f"the disk became full during {redact(shlex.join(argv[:2]))}",
                where=f"full log: {log}",
                next_command="inv clean, then docker builder prune",
            )
        if code:
            raise CommandFailed([redact(word) for word in argv], code, tail, log, title=redact(title))

    def replace(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        title: str = "",
    ) -> int:
        """Hands the terminal to a command, which may be interactive, and returns its exit code."""
        self.console.print(Text(f"+ {title or shlex.join(argv)}", style="dim"), soft_wrap=True)
        return subprocess.call(list(argv), env=_environment(env), cwd=cwd)

    @contextmanager
    def _passing_on(self, process: subprocess.Popen[str], pass_on: PassOn | None) -> Iterator[None]:
        if pass_on is None:
            yield
            return
        asked: list[int] = []

        def ask(number: int) -> None:
            self.console.print("ending; a second Ctrl-C ends it at once", style="yellow")
            pass_on(process, number)

        def handle(number: int, frame: object) -> None:
            asked.append(number)
            if len(asked) > 1:
                raise KeyboardInterrupt
            # not here: what is interrupted may be in the middle of a print
            threading.Thread(target=ask, args=(number,), daemon=True).start()

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _progress(self, show: bool) -> AbstractContextManager[Live | None]:
        alone = threading.current_thread() is threading.main_thread()  # else several would write one line
        if show or not alone or not self.console.is_terminal:
            return nullcontext()
        return Live(Spinner("dots"), console=self.console, transient=True)


def to_its_group(process: Process, number: int) -> None:
    """The signal for the command and all that it started, as a terminal's Ctrl-C is."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def leave_running(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
    """Starts a daemon, which outlives this process."""
    with log.open("a") as sink:
        subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            env=_environment(env),
        )


def _end_with_parent() -> None:
    """Where this process is killed, its command ends too: it would go on with files that the next run removes."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str] | None:
    return {**os.environ, **extra} if extra is not None else None


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the command and all that it started: first politely, then not."""
    for sig, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, sig)
            process.wait(patience)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
