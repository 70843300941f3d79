"""The ranks of a distributed test, forked by one process that has imported what takes longest, and started by `start`.

    python forked_ranks.py torch,torchrec PROGRAM ARGUMENT... < JSON of [environment, log] of each rank

Each rank then goes on as `python PROGRAM ARGUMENT...` would, with its own environment and into its own log. A device's
runtime does not survive a fork: where an import has used CUDA, or NPUs are real, ranks begin anew.

Ranks share the seed of Python's hashes, which torchrun's do not: GRSTACK_FORK_RANKS=0 starts each by itself, as the
slow tests do.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


class Rank:
    """As subprocess.Popen."""

    def __init__(self, leader: subprocess.Popen[str]) -> None:
        self.leader = leader
        self.pid = 0
        self.returncode: int | None = None
        self.changed = threading.Condition()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self.changed:
            if not self.changed.wait_for(lambda: self.returncode is not None, timeout):
                raise subprocess.TimeoutExpired("a rank", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        with self.changed:
            if self.returncode is not None:
                return
            if not self.pid:
                self.leader.kill()
                return
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the leader has not said so yet
                os.kill(self.pid, signal.SIGKILL)

    def set(self, name: str, value: int) -> None:
        with self.changed:
            setattr(self, name, value)
            self.changed.notify_all()


def wait(ranks: Sequence[Rank | subprocess.Popen[Any]], seconds: float, patience: float = 0.0) -> list[int]:
    """Exit codes. When one fails the others would wait for it in vain: they are ended after `patience`, in which they
    may say what they saw of it; and all after `seconds`."""
    deadline = time.monotonic() + seconds
    while (codes := [rank.poll() for rank in ranks]).count(None) and time.monotonic() < deadline:
        if any(codes):
            deadline = min(deadline, time.monotonic() + patience)
        time.sleep(0.05)
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
    return [rank.wait() for rank in ranks]


@contextlib.contextmanager
def meeting() -> Iterator[dict[str, str]]:
    """MASTER_ADDR and MASTER_PORT of ranks on this machine, whose port nobody else is given while this is open.

    It is bound, so the kernel passes it over; PyTorch's store names it and sets SO_REUSEADDR too, so it may listen.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(holder.getsockname()[1])}


def start(
    imports: str, argv: Sequence[str], env: Mapping[str, str], ranked: Sequence[Mapping[str, str]], logs: Sequence[Path]
) -> list[Rank]:
    """`python argv` once for each of `ranked`, what its environment has beside `env`; what it says goes to its log."""
    for log in logs:
        log.write_bytes(b"")
    command = [sys.executable, __file__, imports, *argv]
    with logs[0].open("a") as said:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
        leader = subprocess.Popen(command, env=env, text=True, **pipes)
    assert leader.stdin is not None and leader.stdout is not None
    leader.stdin.write(json.dumps([[dict(own), str(log)] for own, log in zip(ranked, logs, strict=True)]))
    leader.stdin.close()
    ranks = [Rank(leader) for _ in ranked]

    def follow() -> None:
        assert leader.stdout is not None
        for line in leader.stdout:
            number, name, value = line.split()
            ranks[int(number)].set(name, int(value))
        code = leader.wait()
        for rank in ranks:  # of a leader that failed
            if rank.returncode is None:
                rank.set("returncode", code or 1)

    threading.Thread(target=follow, daemon=True).start()
    return ranks


def lead(imports: str, told: list[tuple[dict[str, str], str]]) -> bool:
    """True in each rank; False in their parent, when all have ended. What the imports say is in the first log."""
    tell = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in imports.split(","):
        importlib.import_module(name)
    for stream in (sys.stdout, sys.stderr):  # or each rank would say it again
        stream.flush()
    numbers: dict[int, int] = {}
    for number, (own, log) in enumerate(told):
        pid = os.fork()
        if not pid:
            tell.close()
            os.environ |= own
            file = os.open(log, os.O_WRONLY | os.O_APPEND)
            for number in (1, 2):
                os.dup2(file, number)
            os.close(file)
            if device_was_used():
                os.execv(sys.executable, [sys.executable, *sys.argv])
            return True
        numbers[pid] = number
        print(number, "pid", pid, file=tell)
    while numbers:
        pid, status = os.wait()
        if pid in numbers:  # and no child of an import
            print(numbers.pop(pid), "returncode", os.waitstatus_to_exitcode(status), file=tell)
    return False


def device_was_used() -> bool:
    """Before this process was forked. Whether an NPU was, torch_npu does not tell of a plain fork."""
    if "GRSTACK_NPUS" in os.environ or os.environ.get("GRSTACK_FORK_RANKS") == "0":
        return True
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda._is_in_bad_fork()


if __name__ == "__main__":
    told = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    imports, sys.argv = sys.argv[1], sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    if lead(imports, told):
        __file__ = sys.argv[0]
        exec(compile(Path(__file__).read_bytes(), __file__, "exec", dont_inherit=True))
