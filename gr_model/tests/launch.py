"""Starts the processes of a distributed test and waits for them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from pathlib import Path

import forked_ranks

TIME_LIMIT, PATIENCE = 600.0, 20.0


def free_port() -> int:
    """One that the kernel hands to nobody meanwhile: it takes those from 32768 on."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def launch(processes: int, argv: list[str], folder: Path, **variables: str) -> str:
    """Runs `python argv` as `processes` ranks; returns what they said. Fails if one fails or does not come back.

    The others of one that failed have PATIENCE to say what they saw of it.
    """
    here = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    common = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "TWIN_NPU_COUNT": str(processes)}
    common |= variables | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(processes)}
    logs = [folder / f"process-{processes}-{rank}.log" for rank in range(processes)]
    own = [{"RANK": str(n), "LOCAL_RANK": str(n), "LOCAL_WORLD_SIZE": str(processes)} for n in range(processes)]
    running = forked_ranks.start("torch,torchrec,gr_model.training.trainer", argv, common, own, logs)
    codes = forked_ranks.wait(running, TIME_LIMIT, PATIENCE)
    said = "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)
    assert codes == [0] * processes, f"the processes ended with {codes}\n{said}"
    return said
