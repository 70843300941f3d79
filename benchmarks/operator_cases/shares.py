"""How much of a peer's processor time is spent by threads other than the one that calls it.

Its speed does not tell: with two threads that share a core's caches or that the host runs in turn, parallel code may be
as slow as on one. Threads that wait must not count: this runs in a process of its own, where they sleep (PASSIVE).
Threads are started, and the first calls made, before any is counted: in a process's first calls libraries load, memory
is mapped and threads begin, on whichever thread. A share is the median of those of single calls.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from .cases import Case, Side

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
UNCOUNTED_CALLS, FEWEST_CALLS, SECONDS = 5, 9, 0.2
MORE_THAN_EVEN = 0.05  # what a median may say beyond an even share, which no caller's waiting can explain
PAUSE = 0.001  # seconds after which a thread that has nothing to do sleeps
TASKS = Path("/proc/self/task")


def key(case: Case, threads: int) -> str:
    return f"{case.operator} | {case.shape} | {case.peer} | {threads}"


def _others() -> int:
    """Nanoseconds of processor time so far of all threads but this one. That of a thread is right while it sleeps."""
    time.sleep(PAUSE)
    own = str(threading.get_native_id())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in TASKS.iterdir() if task.name != own)


def _start_threads() -> None:
    """Work for every thread of PyTorch's."""
    torch.zeros(1 << 22).add_(1)


def of(side: Side, batches: int) -> float:
    """The share of the other threads, from 0 to nearly 1."""
    _start_threads()
    for i in range(UNCOUNTED_CALLS):
        side(i % batches)()
    shares: list[float] = []
    started = time.perf_counter()
    while len(shares) < FEWEST_CALLS or time.perf_counter() - started < SECONDS:
        call = side(len(shares) % batches)
        before = _others()
        start = time.thread_time_ns()
        call()
        own = time.thread_time_ns() - start
        others = _others() - before
        shares.append(others / (own + others))
    return statistics.median(shares)


def measure(cases: Iterator[Case], threads: Sequence[int]) -> dict[str, float]:
    """By key; of the cases that ask for no more than a peer's speed."""
    found = {}
    for case in cases:
        for count in threads:
            if count > 1 and case.target == 1.0:
                torch.set_num_threads(count)
                share = of(case.theirs, case.batches)
                if share > 1 - 1 / count + MORE_THAN_EVEN:
                    raise RuntimeError(f"{key(case, count)}: {share:.0%} of the time is more than an even share")
                found[key(case, count)] = share
    return found


def in_another_process(program: str, module: str, threads: Sequence[int], match: str) -> dict[str, float]:
    """From `program MODULE --threads N,M --match TEXT --peer-shares FILE`."""
    if max(threads) == 1:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shares.json"
        counts = ",".join(map(str, threads))
        options = ["--threads", counts, "--match", match, "--peer-shares", str(file)]
        subprocess.run([sys.executable, program, module, *options], env={**os.environ, **PASSIVE}, check=True)
        shares: dict[str, float] = json.loads(file.read_text())
        return shares
