"""Two processes on two devices: all_reduce, and data-parallel training against one process with both halves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gr_model.training.trainer import Trainer
from smoke_tests.check import CheckFailed, CheckSkipped, Context, Outcome
from smoke_tests.checks import training

BACKENDS = {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}
RANKS, STEPS, TOLERANCE = 2, 3, 1e-5
TIME_LIMIT, PATIENCE = 300.0, 5.0  # seconds: of the ranks; of the others when one has failed
SETTINGS = ("train.batch=16", "model.dropout=0", "model.max_items=50")


def run(context: Context) -> Outcome:
    kind = kind_of_ranks(context.kind)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as holder:
        # Bound until the ranks have met, so that nobody else is given the port; their store sets SO_REUSEADDR too.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        port = holder.getsockname()[1]
        argv = [sys.executable, "-m", "smoke_tests.checks.collectives", kind, str(context.data_dir), folder]
        common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
        logs = [Path(folder) / f"rank{rank}.log" for rank in range(RANKS)]
        processes = []
        for rank, log in enumerate(logs):
            with log.open("w") as file:
                environment = common | {"RANK": str(rank), "OMP_NUM_THREADS": "1"}
                processes.append(subprocess.Popen(argv, env=environment, stdout=file, stderr=subprocess.STDOUT))
        codes = ended(processes, TIME_LIMIT, PATIENCE)
        if any(codes):
            lines = [f"rank {r}: {line}" for r, log in enumerate(logs) for line in log.read_text().splitlines()[-10:]]
            raise CheckFailed(f"the processes ended with {codes}", lines)
        states = [torch.load(Path(folder) / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]
    unequal = [name for name in states[0] if not torch.equal(states[0][name], states[1][name])]
    if unequal:
        raise CheckFailed("parameters of the two ranks differ", unequal)
    alone = one_process(context)
    apart = [
        f"{name}: {(states[0][name] - value).abs().max():.2e}"
        for name, value in alone.items()
        if not torch.allclose(states[0][name], value, rtol=TOLERANCE, atol=TOLERANCE)
    ]
    if apart:
        raise CheckFailed("data-parallel training differs from one process", apart)
    return Outcome(f"{BACKENDS[kind]}, {RANKS} processes: sums right, {STEPS} DDP steps equal to one process")


def kind_of_ranks(kind: str) -> str:
    """A rank takes a device; two ranks without two GPUs are tried on the CPU, whose backend the image has too."""
    there = torch.cuda.device_count() if kind == "cuda" else torch.npu.device_count() if kind == "npu" else RANKS
    if kind == "npu" and there < RANKS:
        raise CheckSkipped(f"{RANKS} NPUs are needed, {there} given: inv smoke-test --devices 0,1")
    return kind if there >= RANKS else "cpu"


def ended(processes: Sequence[subprocess.Popen[bytes]], seconds: float, patience: float) -> list[int]:
    """Exit codes. When one fails, or when `seconds` have passed, the others would wait in vain: they are ended."""
    deadline = time.monotonic() + seconds
    while (codes := [process.poll() for process in processes]).count(None) and time.monotonic() < deadline:
        if any(codes):
            deadline = min(deadline, time.monotonic() + patience)
        time.sleep(0.05)
    for process in processes:
        process.kill()  # of one that has ended: nothing
    return [process.wait() for process in processes]


def prepared(context: Context, device: str) -> Trainer:
    """SGD: its updates are linear in the gradient, so that a rounding difference stays one (Adam's may flip signs)."""
    trainer = training.trainer(context, "ml-100k-retrieval", device, *SETTINGS)
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.1)
    return trainer


def half_loss(trainer: Trainer, model: torch.nn.Module, step: int, rank: int) -> torch.Tensor:
    torch.manual_seed(100 * step + rank)
    return model(trainer.task.batch(trainer.users_of_step(step)[rank::RANKS], trainer.device))


def one_process(context: Context) -> dict[str, torch.Tensor]:
    trainer = prepared(context, "cpu")
    for step in range(STEPS):
        trainer.optimizer.zero_grad()
        (sum(half_loss(trainer, trainer.model, step, rank) for rank in range(RANKS)) / RANKS).backward()
        trainer.optimizer.step()
    state: dict[str, torch.Tensor] = trainer.model.state_dict()
    return state


def one_rank(kind: str, data_dir: Path, folder: Path) -> None:
    rank = int(os.environ["RANK"])
    device = "cpu" if kind == "cpu" else f"{kind}:{rank}"
    context = Context(data_dir, folder, {}, {"target": kind})
    trainer = prepared(context, device)
    dist.init_process_group(BACKENDS[kind])
    try:
        for dtype in (torch.float32, torch.int64):
            x = (torch.arange(1000) + 1000 * rank).to(dtype).to(trainer.device)
            dist.all_reduce(x)
            assert torch.equal(x.cpu(), (2 * torch.arange(1000) + 1000).to(dtype)), f"all_reduce of {dtype}"
        parallel = DistributedDataParallel(trainer.model, device_ids=None if kind == "cpu" else [rank])
        for step in range(STEPS):
            trainer.optimizer.zero_grad()
            half_loss(trainer, parallel, step, rank).backward()
            trainer.optimizer.step()
        torch.save({name: value.cpu() for name, value in trainer.model.state_dict().items()}, folder / f"rank{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    one_rank(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
