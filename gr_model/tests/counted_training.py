"""Small trainings like the source article's on an NPU, for TWIN_COUNTS; prints their losses as JSON.

Steps are marked in the order of CASES, STEPS each.
"""

from __future__ import annotations

import json

import numpy as np
import torch

from gr_model.config import Config, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.data.interactions import Interactions, by_user
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

STEPS, LOG_EVERY = 4, 3
USERS, BATCH = 24, 6


def ranking(
    blocks: int = 2, log_every: int = LOG_EVERY, candidates: int = 0, clip: float = 0.0, precision: str = "fp32"
) -> Config:
    """The preset kuairand-1k-benchmark, shorter and narrower: interleaved, with the relative bias and dropout."""
    return Config(
        task="ranking",
        model=_model(blocks, interleave=True),
        ranking=RankingConfig(tasks=tuple(f"task{i}" for i in range(8)), held_out=10, candidates=candidates),
        train=TrainConfig(batch=BATCH, log_every=log_every, clip=clip, precision=precision),
    )


def retrieval() -> Config:
    return Config(
        task="retrieval",
        model=_model(2),
        retrieval=RetrievalConfig(negatives=16, in_batch=8),
        train=TrainConfig(batch=BATCH, log_every=LOG_EVERY, ema=0.9),
    )


def _model(blocks: int, interleave: bool = False) -> ModelConfig:
    size = {"dim": 64, "heads": 4, "qk_dim": 16, "value_dim": 16, "max_items": 64}
    return ModelConfig(**size, blocks=blocks, interleave=interleave, attention="fused", dropout=0.2)


CASES = {
    "shallow": ranking(blocks=1),
    "ranking": ranking(),
    "read each step": ranking(log_every=1),
    "candidates": ranking(candidates=4),
    "clipped": ranking(clip=1.0),
    "autocast": ranking(precision="bf16"),
    "retrieval": retrieval(),
}


def data() -> Interactions:
    rng = np.random.default_rng(0)
    counts = rng.integers(20, 61, USERS)
    total = counts.sum()
    return Interactions(
        name="random",
        users=by_user(
            user=np.repeat(np.arange(USERS), counts),
            item=rng.integers(0, 300, total),
            action=rng.integers(0, 256, total),
            time=rng.integers(10**9, 10**9 + 10**6, total),
            features=np.zeros((USERS, 0), np.int64),
        ),
        items=300,
        action_values=tuple(float(value) for value in range(256)),
        tasks={f"task{i}": ((np.arange(256) >> i) & 1).astype(np.float32) for i in range(8)},
        feature_sizes={},
    )


def main() -> None:
    device = open_device("npu")
    losses = {}
    for name, config in CASES.items():
        trainer = Trainer(config, data(), device)
        results = [trainer.train_step() for _ in range(STEPS)]
        losses[name] = [result.loss for result in results]
        torch.npu.synchronize()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
