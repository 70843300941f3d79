"""Starts the ranks of a test as processes of their own and collects what they found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Outcome:
    exit_code: int
    found: Any  # what the worker returned; None if it did not return
    output: str
    seconds: float


def run_ranks(
    worker: str, size: int, folder: Path, *, timeout: float = 120, environment: dict[str, str] | None = None
) -> list[Outcome]:
    """Runs `workers.<worker>(job)` in `size` processes; kills what is left after `timeout` seconds."""
    start = time.monotonic()
    return collect(start_ranks(worker, size, folder, environment=environment), folder, start, timeout)


def start_ranks(
    worker: str, size: int, folder: Path, *, environment: dict[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    processes = []
    for rank in range(size):
        log = (folder / f"rank{rank}.log").open("wb")
        processes.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "workers.py"), worker, str(rank), str(size), str(folder)],
                env={**os.environ, "TWIN_HCCL_TIMEOUT": "60", **(environment or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
        log.close()
    return processes


def collect(processes: list[subprocess.Popen[bytes]], folder: Path, start: float, timeout: float) -> list[Outcome]:
    """Waits for all ranks, until `timeout` seconds after `start`."""
    outcomes = []
    for rank, process in enumerate(processes):
        try:
            code = process.wait(max(0.1, start + timeout - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        result = folder / f"result{rank}.json"
        outcomes.append(
            Outcome(
                exit_code=code,
                found=json.loads(result.read_text()) if result.exists() else None,
                output=(folder / f"rank{rank}.log").read_text(errors="replace"),
                seconds=time.monotonic() - start,
            )
        )
    return outcomes
