"""Programs of tests, one after the other, forked by a process that has imported what takes longest.

    python forked_programs.py torch < lines of JSON: [argv, variables, file for stdout, file for stderr]

Each goes on as `python PROGRAM ARGUMENT...` would, in the environment of the one that forks and with variables of its
own, for what reads them after the import (None: without that one). Slow tests, and tests on
real devices, whose runtime does not survive a fork, start each by itself.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path


class Programs:
    def __init__(self, imports: str, env: Mapping[str, str]) -> None:
        self.env = env
        self.forks = not {"GRSTACK_NPUS"} & {*os.environ} and os.environ.get("GRSTACK_FORK_RANKS") != "0"
        if self.forks:
            command = [sys.executable, __file__, imports]
            self.leader = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(
        self, argv: Sequence[str], timeout: float, variables: Mapping[str, str | None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run of `python argv`, with all that it says kept."""
        if not self.forks:
            command = [sys.executable, *argv]
            kept = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": timeout}
            changed = {**self.env, **(variables or {})}
            env = {name: value for name, value in changed.items() if value is not None}
            return subprocess.run(command, env=env, check=False, **kept)
        assert self.leader.stdin is not None
        with tempfile.TemporaryDirectory() as folder:
            said = [Path(folder) / name for name in ("stdout", "stderr")]
            print(json.dumps([list(argv), dict(variables or {}), *map(str, said)]), file=self.leader.stdin, flush=True)
            pid, late = self._answer(), threading.Event()

            def end() -> None:
                late.set()
                os.kill(pid, signal.SIGKILL)

            timer = threading.Timer(timeout, end)
            timer.start()
            code = self._answer()
            timer.cancel()
            if late.is_set():
                raise subprocess.TimeoutExpired(list(argv), timeout)
            return subprocess.CompletedProcess(list(argv), code, *(file.read_text() for file in said))

    def _answer(self) -> int:
        assert self.leader.stdout is not None
        line = self.leader.stdout.readline()
        assert line, f"the process that forks programs ended with {self.leader.wait()}"
        return int(line)

    def close(self) -> None:
        if self.forks:
            self.leader.communicate()


def lead(imports: str) -> bool:
    """True in each program, False when no more are asked for."""
    tell, asked = os.fdopen(os.dup(1), "w", buffering=1), os.fdopen(os.dup(0))
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name in imports.split(","):
        importlib.import_module(name)
    for line in asked:
        argv, variables, *files = json.loads(line)
        for stream in (sys.stdout, sys.stderr):  # or the program would say it again
            stream.flush()
        pid = os.fork()
        if not pid:
            tell.close()
            asked.close()
            for number, file in enumerate(files, start=1):
                opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(opened, number)
                os.close(opened)
            for name, value in variables.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})
            sys.argv = argv
            return True
        print(pid, file=tell)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=tell)
    return False


if __name__ == "__main__" and lead(sys.argv[1]):
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    __file__ = sys.argv[0]
    exec(compile(Path(__file__).read_bytes(), __file__, "exec", dont_inherit=True))
