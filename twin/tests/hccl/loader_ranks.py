"""`loader_ranks.py FOLDER CASES`: jobs of two ranks that train from DataLoader workers, until rank 1 ends in some way.

CASES: a JSON list of [workers (fork or spawn), TASK_QUEUE_ENABLE, ending]. Prints as JSON, case by case: the exit codes
of the ranks, the seconds between their ends, and which workers were still there long after. What a rank printed is in
FOLDER/<case>/rank<r>.txt. The ranks are forked behind the import of torch_npu, which calls nothing of the runtime.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from torch.utils.data import DataLoader, Dataset

SAMPLES, BATCH, WIDTH = 32, 4, 8
LAST_STEP = 11  # in the second epoch, with workers that have loaded ahead
LIMIT = 240.0  # seconds that a job may take
GONE = 15.0  # seconds; workers whose parent was killed look for it every five


class Numbers(Dataset):
    """Sample i is WIDTH times i; a worker leaves its id in the folder."""

    def __init__(self, folder: str, on_device: bool) -> None:
        self.folder, self.on_device = folder, on_device

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        Path(self.folder, f"worker{os.getpid()}").touch()
        sample = torch.full((WIDTH,), float(index))
        return (sample.npu() * 1).cpu() if self.on_device else sample  # a spawned worker may use the device


def end(ending: str) -> None:
    if ending == "exit":
        sys.exit(3)
    if ending == "exception":
        raise ValueError("on purpose")
    os.kill(os.getpid(), signal.SIGTERM)


def train(rank: int, folder: str, workers: str, ending: str) -> None:
    torch.npu.set_device(rank)
    store = Path(folder, "store").as_uri()
    dist.init_process_group("hccl", init_method=store, rank=rank, world_size=2)
    weight = torch.ones(WIDTH, device="npu", requires_grad=True)
    loader = DataLoader(
        Numbers(folder, workers == "spawn"),
        batch_size=BATCH,
        num_workers=1,
        pin_memory=True,
        persistent_workers=True,
        multiprocessing_context=workers,
    )
    step = 0
    while True:
        for batch in loader:
            first = step % (SAMPLES // BATCH) * BATCH
            weight.grad = None
            (batch.npu(non_blocking=True) * weight).sum().backward()
            dist.all_reduce(weight.grad)
            expected = 2.0 * sum(range(first, first + BATCH))  # the same batch on both ranks
            assert weight.grad.tolist() == [expected] * WIDTH, (step, weight.grad)
            if rank == 1 and step == LAST_STEP:
                end(ending)
            step += 1


def start(rank: int, folder: str, workers: str, queue: str, ending: str) -> int:
    child = os.fork()
    if child:
        return child
    output = os.open(f"{folder}/rank{rank}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1), os.dup2(output, 2)
    os.environ["TASK_QUEUE_ENABLE"] = queue
    train(rank, folder, workers, ending)  # ends as a program does: through main, with its own code
    raise AssertionError("it trains until an end comes")


def wait_for(ranks: list[int]) -> tuple[list[int | None], float]:
    """Exit codes by rank, None for one that had to be killed; the seconds between the ends."""
    codes: dict[int, int | None] = {}
    ended: list[float] = []
    deadline = time.monotonic() + LIMIT
    while len(codes) < len(ranks):
        for rank in [rank for rank in ranks if rank not in codes]:
            pid, status = os.waitpid(rank, os.WNOHANG)
            if pid:
                codes[rank] = os.waitstatus_to_exitcode(status)
                ended.append(time.monotonic())
            elif time.monotonic() > deadline:
                os.kill(rank, signal.SIGKILL)
                os.waitpid(rank, 0)
                codes[rank] = None
                ended.append(time.monotonic())
        time.sleep(0.01)
    return [codes[rank] for rank in ranks], ended[-1] - ended[0]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def main(folder: str, cases: list[list[str]]) -> None:
    found: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        place = f"{folder}/{number}"
        os.mkdir(place)
        ranks = [start(rank, place, case[0], case[1], case[2]) for rank in range(2)]
        codes, apart = wait_for(ranks)
        pids = [int(path.name.removeprefix("worker")) for path in Path(place).glob("worker*")]
        found.append({"codes": codes, "seconds": apart, "ranks": ranks, "workers": pids})
    deadline = time.monotonic() + GONE
    while any(alive(pid) for job in found for pid in job["workers"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    print(json.dumps([{**job, "left": [pid for pid in job["workers"] if alive(pid)]} for job in found]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
