"""Starts the processes of a distributed test and waits for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

TIME_LIMIT = 600.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(processes: int, argv: list[str], folder: Path) -> str:
    """Runs `python argv` as `processes` ranks; returns what they said. Fails if one fails or does not come back."""
    here = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    common = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "TWIN_NPU_COUNT": str(processes)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(processes)}
    logs = [folder / f"process-{processes}-{rank}.log" for rank in range(processes)]
    running = []
    for rank, log in enumerate(logs):
        with log.open("w") as file:
            env = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(processes)}
            running.append(subprocess.Popen([sys.executable, *argv], env=env, stdout=file, stderr=subprocess.STDOUT))
    deadline, codes = time.monotonic() + TIME_LIMIT, []
    for process in running:
        try:
            codes.append(process.wait(max(0.1, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            codes.append(process.wait())
    said = "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)
    assert codes == [0] * processes, f"the processes ended with {codes}\n{said}"
    return said
