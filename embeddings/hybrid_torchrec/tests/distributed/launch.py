"""Starts the processes of sharded_program.py."""

from __future__ import annotations

import os
from pathlib import Path

import forked_ranks
import torch

PROGRAM = Path(__file__).with_name("sharded_program.py")
TIME_LIMIT = 280  # seconds for the cases of a test file; without load the longest start takes 30
LONG_TIME_LIMIT = 3000  # for more of them
Result = dict[str, object] | str


def start(kind: str, world: int, cases: list[str], folder: Path) -> dict[str, Result]:
    """What each case saved; for cases that saved nothing, what the processes said."""
    env = {**os.environ, "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env["TWIN_NPU_COUNT"] = str(world)
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1" if kind == "npu" else "0"
    argv = [str(PROGRAM), kind, str(folder / "store"), str(folder), *cases]
    logs = [folder / f"rank{rank}.log" for rank in range(world)]
    ranked = [{"RANK": str(rank)} for rank in range(world)]
    processes = forked_ranks.start("torch,torchrec,hybrid_torchrec.distributed", argv, env, ranked, logs)
    codes = forked_ranks.wait(processes, TIME_LIMIT if len(cases) < 20 else LONG_TIME_LIMIT)
    said = f"the processes ended with {codes}\n" + "\n".join(log.read_text()[-4000:] for log in logs)
    results: dict[str, Result] = {}
    for case in cases:
        file = folder / f"{case}.pt"
        results[case] = torch.load(file, weights_only=True) if file.exists() else said
    return results
