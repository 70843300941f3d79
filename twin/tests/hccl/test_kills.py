"""Ranks killed at random moments: the others end at once and name the dead one, and nothing is left of the job."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from launch import collect, start_ranks

pytestmark = pytest.mark.twin

SOON = 10.0  # far below the ranks' own limit of 60 s


def kill_one(seed: int, folder: Path) -> dict[str, object]:
    """A job of 2 to 4 ranks, over Unix sockets or TCP, in which one rank is killed after up to 0.2 s of collectives."""
    draw = random.Random(seed)
    size, tcp = draw.randint(2, 4), seed % 2 == 1
    victim, delay = draw.randrange(size), draw.uniform(0, 0.2)
    shared_before = set(os.listdir("/dev/shm"))
    environment = {"TWIN_HCCL_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"} if tcp else {}
    processes = start_ranks("calls_until_failure", size, folder, environment=environment)
    for rank in range(size):
        while not (folder / f"running{rank}").exists():
            time.sleep(0.002)
            assert processes[rank].poll() is None, (folder / f"rank{rank}.log").read_text()
    time.sleep(delay)
    processes[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    outcomes = collect(processes, folder, killed, 30)
    seconds = time.monotonic() - killed
    for rank, outcome in enumerate(outcomes):
        if rank == victim:
            assert outcome.exit_code == -signal.SIGKILL
            continue
        assert outcome.found is not None, f"seed {seed}, rank {rank}: {outcome.output}"
        assert f"rank {victim} (pid {processes[victim].pid}" in outcome.found["text"], (seed, outcome.found)
        assert outcome.found["seconds"] < SOON + delay, (seed, outcome.found)
    pids = {process.pid for process in processes}
    new = set(os.listdir("/dev/shm")) - shared_before
    left = [name for name in new if "hccl" in name or "twin" in name or any(str(pid) in name for pid in pids)]
    sockets = [
        line.split()[-1]
        for line in Path("/proc/self/net/unix").read_text().splitlines()
        if any(f"@twin-hccl/u{os.geteuid()}/p{pid}-" in line for pid in pids)
    ]
    return {"seed": seed, "seconds": seconds, "shared": left, "sockets": sockets}


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_rank_leaves_nothing(seed: int, tmp_path: Path) -> None:
    found = kill_one(seed, tmp_path)
    assert found["shared"] == []
    assert found["sockets"] == []


@pytest.mark.slow
def test_200_killed_ranks_leave_nothing(tmp_path: Path) -> None:
    """`benchmarks/twin.py robustness` measures the same."""
    for seed in range(1000, 1200):
        found = kill_one(seed, tmp_path / str(seed))
        assert (found["shared"], found["sockets"]) == ([], []), found
