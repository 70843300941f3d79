"""Steps of the source article's preset at its full size on an NPU that computes nothing; prints its memory as JSON.

TWIN_COMPUTE=off TWIN_ATEN=aclnn TWIN_NPU_MEMORY=68719476736 python full_size_program.py fp32|bf16 ITEMS
"""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import torch

from gr_model.config import presets
from gr_model.data.interactions import Interactions, by_user
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

PRESET = "kuairand-1k-benchmark"
STEPS = 2  # the second has the optimizer's state
USERS = 32


def data(items: int, tasks: tuple[str, ...], history: int) -> Interactions:
    """Every user's history is as long as the model takes: each row of a batch is full."""
    rng = np.random.default_rng(0)
    total = USERS * history
    return Interactions(
        name="random",
        users=by_user(
            user=np.repeat(np.arange(USERS), history),
            item=rng.integers(0, items, total),
            action=rng.integers(0, 1 << len(tasks), total),
            time=rng.integers(10**9, 10**9 + 10**6, total),
            features=np.zeros((USERS, 0), np.int64),
        ),
        items=items,
        action_values=tuple(float(value) for value in range(1 << len(tasks))),
        tasks={name: ((np.arange(1 << len(tasks)) >> i) & 1).astype(np.float32) for i, name in enumerate(tasks)},
        feature_sizes={},
    )


def main() -> None:
    precision, items = sys.argv[1], int(sys.argv[2])
    config = presets.get(PRESET)
    config = dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, workers=0),
        train=dataclasses.replace(config.train, precision=precision),
    )
    device = open_device("npu")
    history = config.model.max_items + config.ranking.held_out
    trainer = Trainer(config, data(items, config.ranking.tasks, history), device)
    results = [trainer.train_step() for _ in range(STEPS)]
    torch.npu.synchronize()
    found = {"tokens": [result.tokens for result in results], "peak": torch.npu.max_memory_reserved()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
