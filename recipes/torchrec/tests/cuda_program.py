"""One of two processes of a script for CUDA or for NPUs (run as a program).

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... python cuda_program.py cuda|npu FOLDER NAME ...

cuda: the script knows CUDA only and the vendor's transfer_to_npu is imported first; npu: it names NPUs and hccl.
Upstream's examples end without destroying their group; with LATE=RANK so does this, that rank three seconds later.
FOLDER/<name>.<rank>.pt holds what each of upstream_programs.PROGRAMS computed, or the text of its exception.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist


def main(kind: str, folder: Path, names: list[str]) -> None:
    rank = int(os.environ["RANK"])
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=os.environ["WORLD_SIZE"])
    if kind == "cuda":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401
    import upstream_models
    import upstream_programs

    upstream_models.use(torch.device(kind, rank))
    getattr(torch, kind).set_device(upstream_models.at())
    dist.init_process_group("nccl" if kind == "cuda" else "hccl")
    for name in names:
        torch.manual_seed(0)
        try:
            result: object = upstream_programs.PROGRAMS[name]()
        except Exception as error:
            traceback.print_exc()
            result = f"{type(error).__name__}: {error}"
        torch.save(result, folder / f"{name}.{rank}.pt")
        print(name, "failed" if isinstance(result, str) else "done", flush=True)
        if isinstance(result, str):
            break  # the other rank may be anywhere in the program
    if late := os.environ.get("LATE"):
        time.sleep(3 if int(late) == rank else 0)
        return
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
