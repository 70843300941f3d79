"""`long_training.py STEPS`: trains a small model on npu:0; prints as JSON how much memory was held on the way.

Run in a process of its own with the twin's libraries on its path: by test_runtime_long.py and benchmarks/twin.py.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import torch_npu  # noqa: F401

SAMPLES = 10


def resident() -> int:
    """Bytes of this process in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def main() -> None:
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    table = torch.nn.EmbeddingBag(1000, 16, mode="sum").to("npu")
    tower = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.SiLU(), torch.nn.Linear(32, 1)
    )
    tower = tower.to("npu")
    optimizer = torch.optim.Adam([*table.parameters(), *tower.parameters()], lr=1e-3)
    samples = []
    start = time.perf_counter()
    for step in range(1, steps + 1):
        # Lengths that change from step to step, as a recommender's do: the caching allocator meets many sizes.
        lengths = torch.randint(1, 20, (32,))
        ids = torch.randint(1000, (int(lengths.sum()),))
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
        label = torch.randint(2, (32,)).float()
        optimizer.zero_grad()
        logits = tower(table(ids.npu(), offsets.npu()))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, label.npu())
        loss.backward()
        optimizer.step()
        if step % (steps // SAMPLES) == 0:
            samples.append(
                {
                    "step": step,
                    "loss": round(loss.item(), 4),
                    "resident": resident(),
                    "allocated": torch.npu.memory_allocated(),
                    "reserved": torch.npu.memory_reserved(),
                    "descriptors": len(list(Path("/proc/self/fd").iterdir())),
                    "threads": len(list(Path("/proc/self/task").iterdir())),
                }
            )
    print(json.dumps({"steps": steps, "seconds": round(time.perf_counter() - start, 1), "samples": samples}))


if __name__ == "__main__":
    main()
