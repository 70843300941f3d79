"""Ranks that feed from DataLoader workers and end in the midst of a training, at each TASK_QUEUE_ENABLE."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hccl_api import LIBRARIES

pytestmark = pytest.mark.twin

PROGRAM = Path(__file__).with_name("loader_ranks.py")
ENDINGS = {"exit": 3, "exception": 1, "terminated": -signal.SIGTERM}
QUEUES = ("0", "1", "2")
SOON = 35.0  # seconds between the two ends, below the ranks' own limit of 40
# A spawned worker imports torch_npu, which takes seconds: each queue once.
CASES = [*(("fork", queue, ending) for queue in QUEUES for ending in ENDINGS), *(("spawn", q, "exit") for q in QUEUES)]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("loaders")
    settings = {
        "LD_LIBRARY_PATH": f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
        "OMP_NUM_THREADS": "1",
        "TWIN_HCCL_TIMEOUT": "40",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), json.dumps(CASES)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    pids = {str(pid) for job in found for pid in (*job["ranks"], *job["workers"])}
    assert [name for name in os.listdir("/dev/shm") if pids & set(name.split("_"))] == []
    for number, job in enumerate(found):
        job["printed"] = [(folder / f"{number}/rank{rank}.txt").read_text() for rank in range(2)]
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize(("workers", "queue", "ending"), CASES)
def test_a_rank_ends_and_the_other_is_told(
    jobs: dict[tuple[str, str, str], dict[str, Any]], workers: str, queue: str, ending: str
) -> None:
    job = jobs[workers, queue, ending]
    survivor, ended = job["printed"]
    assert job["codes"][1] == ENDINGS[ending], ended
    assert ("ValueError: on purpose" in ended) == (ending == "exception")
    assert "core dumped" not in ended and "terminate called" not in ended
    # torch_npu's watchdog takes the process down when it finds the error before the program has ended by it, now and
    # then before the program has printed its own.
    assert job["codes"][0] in (1, -signal.SIGABRT), survivor
    own = "RuntimeError" in survivor
    assert own or (job["codes"][0] != 1 and "HCCL watchdog thread terminated with exception" in survivor), survivor
    assert "rank 1 (pid " in survivor
    assert "AssertionError" not in survivor + ended
    assert job["seconds"] < SOON
    assert len(job["workers"]) == 2
    assert job["left"] == []
