"""Small trainings with hash tables on an NPU, for TWIN_COUNTS; prints what each step gave as JSON.

Steps are marked in the order of CASES, STEPS each; those of the CPU are not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import torch

from gr_model.config import Config, EmbeddingConfig
from gr_model.embedding import dynamic_tables
from gr_model.runtime.device import open_device
from gr_model.tests.counted_training import data as counted_data
from gr_model.tests.counted_training import ranking, retrieval
from gr_model.training.trainer import Trainer

STEPS = 4
HASH = EmbeddingConfig(kind="hash", optimizer="adagrad", lr=0.05)
ITEMS = 3000  # negatives are drawn from all of them
# Of the about 260 ids of a step half are admitted, and rows go from the third step on.
LIMITED = EmbeddingConfig(
    kind="hash",
    optimizer="adam",
    lr=0.05,
    eps=1e-2,
    max_rows=250,
    eviction="lfu",
    admission="probability",
    admit_probability=0.5,
    capacity=16,
)


def case(config: Config, embedding: EmbeddingConfig, *, ahead: bool = False) -> Config:
    train = dataclasses.replace(config.train, pipeline="sparse_dist" if ahead else "none", deterministic=True, ema=0.0)
    model = dataclasses.replace(config.model, dropout=0.0)
    return dataclasses.replace(config, embedding=embedding, model=model, train=train)


CASES = {
    "ranking": case(ranking(blocks=1, clip=1.0), HASH),
    "ranking ahead": case(ranking(blocks=1), HASH, ahead=True),
    "retrieval": case(retrieval(), LIMITED),
    "retrieval ahead": case(retrieval(), LIMITED, ahead=True),
}


def train(config: Config, device: torch.device) -> list[dict[str, Any]]:
    """Of each step the loss and, as a checkpoint after it has them, the ids of the table and a sum over its rows."""
    trainer = Trainer(config, dataclasses.replace(counted_data(), items=ITEMS), device)
    ((_, _, part),) = dynamic_tables.local_shards(trainer.model)
    found, results = [], []
    for result in trainer.train_steps(trainer.loader().works(0, STEPS)):
        rows, there = part.table.read(part.table.ids())
        assert there.all()
        found.append({"ids": rows.ids.cpu(), "weights": rows.weights.cpu(), "evictions": part.table.evictions})
        results.append(result)
    return [
        {
            "loss": result.loss,
            "ids": step["ids"].sort().values.tolist(),
            "rows": float(step["weights"].double().square().sum()),
            "evictions": step["evictions"],
        }
        for result, step in zip(results, found, strict=True)
    ]


def main(names: list[str]) -> None:
    """Of all cases also those of the CPU."""
    device = open_device("npu")
    steps = {name: train(CASES[name], device) for name in names or CASES}
    on_cpu = {} if names else {name: train(CASES[name], torch.device("cpu")) for name in ("ranking", "retrieval")}
    torch.npu.synchronize()
    print(json.dumps({"npu": steps, "cpu": on_cpu}))


if __name__ == "__main__":
    main(sys.argv[1:])
