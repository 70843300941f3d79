"""One process that starts a group of HCCL, imports torchrec, and ends the group (run as a program).

The last line is a JSON object: the group's watchdog threads while it is there (`before`) and after (`after`).
"""

import json
import os
from pathlib import Path

import torch.distributed as dist
import torch_npu  # noqa: F401


def watchdogs() -> int:
    tasks = Path("/proc/self/task")
    return sum((tasks / task / "comm").read_text().startswith("hccl_watchdog") for task in os.listdir(tasks))


if __name__ == "__main__":
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    import torchrec.distributed.planner.planners  # noqa: F401

    before = watchdogs()
    dist.destroy_process_group()
    print(json.dumps({"before": before, "after": watchdogs()}))
