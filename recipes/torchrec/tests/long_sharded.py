"""`python long_sharded.py STEPS LOG`: trains a row-wise sharded model on two emulated NPUs; prints as JSON what each
rank held on the way, for test_long_sharded.py."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sharded_training as program  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from grid.ranks import Failed, run  # noqa: E402
from sharded_training import Case, Model  # noqa: E402

WORLD = 2
SAMPLES = 10
BATCHES = 50  # different ones, in turn: the allocator meets many sizes


def resident() -> int:
    """Bytes of this process in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def held(step: int, loss: float) -> dict[str, float]:
    return {
        "step": step,
        "loss": round(loss, 4),
        "resident": resident(),
        "allocated": torch.npu.memory_allocated(),  # type: ignore[attr-defined]
        "reserved": torch.npu.memory_reserved(),  # type: ignore[attr-defined]
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "shared": len(list(Path("/dev/shm").iterdir())),
    }


def train(steps: int) -> list[dict[str, float]]:
    from torchrec import KeyedJaggedTensor

    rank = int(os.environ["RANK"])
    device = torch.device("npu", rank)
    dist.init_process_group("hccl")
    sharded = program.shard(
        Model("bags", torch.device("meta")), Case("bags", "row_wise", "adagrad"), device, WORLD, rate=0.01
    )
    dense = program.dense_optimizer(sharded.model, 0.01)
    batches = [program.make_batch(step, rank) for step in range(BATCHES)]
    samples = []
    for step in range(1, steps + 1):
        values, lengths, target = (part.to(device) for part in batches[step % BATCHES])
        dense.zero_grad()
        loss = sharded.model(KeyedJaggedTensor(keys=program.FEATURES, values=values, lengths=lengths), target)
        loss.backward()
        dense.step()
        if step % (steps // SAMPLES) == 0:
            dist.barrier()  # both ranks are between two steps
            torch.npu.synchronize()  # type: ignore[attr-defined]
            torch.npu.empty_cache()  # type: ignore[attr-defined]  # what is kept for later goes by how queues interleave
            samples.append(held(step, loss.item()))
            dist.barrier()
    return samples


def main() -> None:
    import torch_npu  # noqa: F401

    steps = int(sys.argv[1])
    begun = time.monotonic()
    ranks = run(train, steps, kind="npu", world=WORLD, log=Path(sys.argv[2]), seconds=1500)
    assert not isinstance(ranks, Failed), ranks
    seconds, queue = round(time.monotonic() - begun, 1), os.environ.get("TASK_QUEUE_ENABLE", "1")
    print(json.dumps({"steps": steps, "TASK_QUEUE_ENABLE": queue, "seconds": seconds, "ranks": ranks}))


if __name__ == "__main__":
    main()
