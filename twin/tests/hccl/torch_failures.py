"""Run by torchrun: `torch_failures.py KIND OUT`; what a user sees when a rank dies, is late, calls another
thing, cannot be reached, or asks for what HCCL does not do."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401


def main() -> None:
    kind, out = sys.argv[1], Path(sys.argv[2])
    rank = int(os.environ["RANK"])
    if rank == 0:  # it reports, however soon torchrun ends it for the other's failure
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    values = torch.ones(4, device="npu")
    dist.all_reduce(values)
    torch.npu.synchronize()
    if kind == "cut":  # the other hosts become unreachable between two calls
        (out / f"ready{rank}").touch()
        while not (out / "cut").exists():
            time.sleep(0.01)
    (out / f"began{rank}").touch()
    start = time.monotonic()
    try:
        if rank == 1 and kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and kind == "late":
            time.sleep(10)
        if kind.startswith("product of "):
            values = values.to(getattr(torch, kind.rpartition(" ")[2]))
            dist.all_reduce(values, dist.ReduceOp.PRODUCT)
        elif rank == 1 and kind == "mismatch":
            dist.broadcast(values, 0)
            time.sleep(60)  # it does not ask: torch_npu's watchdog does
        else:
            dist.all_reduce(values)
        torch.npu.synchronize()
    except Exception as error:
        (out / f"rank{rank}.txt").write_text(f"{time.monotonic() - start}\n{error}")
        raise


if __name__ == "__main__":
    main()
