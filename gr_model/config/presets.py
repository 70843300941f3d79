"""Configs by name. Those of public data sets have the hyper-parameters of the published HSTU experiments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gr_model.config import Config, ConfigError, DataConfig, ModelConfig, RankingConfig, RetrievalConfig, TrainConfig
from gr_model.config import advice as config_advice
from gr_model.config import files as config_files
from gr_model.data.kuairand import FEATURES, SIGNALS


def get(name: str) -> Config:
    """A preset, or what a file (.yaml) says."""
    if config_files.is_file(name):
        return config_files.load(Path(name), get)
    if name not in PRESETS:
        valid = f"{', '.join(PRESETS)}, or a file (.yaml)"
        raise ConfigError(f"unknown config {name!r}{config_advice.hint(name, PRESETS)}; valid: {valid}")
    return PRESETS[name]


def name_of(name: str) -> str:
    """What a run is named by: the preset, or the file without folder and suffix."""
    return Path(name).stem if config_files.is_file(name) else name


def _epochs(count: int, users: int, batch: int = 128) -> int:
    """In steps."""
    return count * math.ceil(users / batch)


def _model(dim: int, blocks: int, heads: int, **more: Any) -> ModelConfig:
    return ModelConfig(dim=dim, blocks=blocks, heads=heads, qk_dim=dim // heads, value_dim=dim // heads, **more)


def _movies(dataset: str, users: int, model: ModelConfig) -> Config:
    """Zhai et al. 2024, table 4: sequence 200, batch 128, 128 negatives, temperature 0.05, 101 epochs."""
    return Config(
        task="retrieval",
        dataset=dataset,
        model=model,
        data=DataConfig(workers=2),
        train=TrainConfig(steps=_epochs(101, users), eval_every=math.ceil(users / 128) * 5, checkpoint_every=1000),
    )


def _books(model: ModelConfig) -> Config:
    """The same experiments on Amazon Books: sequence 50, 512 negatives, dropout 0.5, 201 epochs."""
    return Config(
        task="retrieval",
        dataset="amzn-books",
        model=model,
        data=DataConfig(workers=4),
        retrieval=RetrievalConfig(negatives=512),
        train=TrainConfig(steps=_epochs(201, 694_897), eval_every=4000, checkpoint_every=4000),
    )


PRESETS = {
    # The public HSTU configuration for MovieLens-1M: dim 50, 2 blocks, 1 head, sequence 200, batch 128, 128 negatives.
    # Dropout, temperature, learning rate and average chosen on validation targets: benchmarks/results/quality-search.md
    "ml-100k-retrieval": Config(
        task="retrieval",
        model=ModelConfig(dropout=0.4),
        retrieval=RetrievalConfig(temperature=0.15),
        train=TrainConfig(lr=2e-3, ema=0.99),
    ),
    "ml-100k-ranking": Config(
        task="ranking",
        model=ModelConfig(max_items=100, interleave=True, contextual=("gender", "age", "occupation")),
        train=TrainConfig(steps=150),
    ),
    "ml-1m": _movies("ml-1m", 6040, _model(50, 2, 1)),
    "ml-1m-large": _movies("ml-1m", 6040, _model(50, 8, 2)),
    "ml-20m": _movies("ml-20m", 138_493, _model(256, 4, 4)),
    "ml-20m-large": _movies("ml-20m", 138_493, _model(256, 16, 8)),
    "amzn-books": _books(_model(64, 4, 4, max_items=50, dropout=0.5)),
    "amzn-books-large": _books(_model(64, 16, 8, max_items=50, dropout=0.5)),
    # The public ranking example on KuaiRand-1K: 3 layers, hidden 512, 4 heads of 128, sequences to 4096, batch 8, 8
    # tasks, a head with a hidden layer of 512. The loss covers all shown interactions; that of the example the newest
    # 100 of a user, as candidates of one list: ranking.candidates=100.
    "kuairand-1k": Config(
        task="ranking",
        dataset="kuairand-1k",
        model=_model(512, 3, 4, max_items=2048, interleave=True, contextual=FEATURES, attention="fused"),
        data=DataConfig(workers=2),
        ranking=RankingConfig(tasks=SIGNALS, held_out=100, head="mlp", hidden=512),
        train=TrainConfig(batch=8, steps=_epochs(10, 1000, 8), eval_every=125, checkpoint_every=125),
    ),
    # The source article's benchmark: KuaiRand-1K, batch 32, sequence 8000, 4 heads of 128.
    "kuairand-1k-benchmark": Config(
        task="ranking",
        dataset="kuairand-1k",
        model=_model(512, 3, 4, max_items=4000, interleave=True, attention="fused"),
        data=DataConfig(workers=2),
        ranking=RankingConfig(tasks=SIGNALS, held_out=100),
        train=TrainConfig(batch=32, steps=200, eval_every=0, log_every=1),
    ),
    # To begin with on a file of one's own: data.path=FILE.
    "own-retrieval": Config(
        task="retrieval",
        dataset="own",
        model=ModelConfig(dropout=0.4),
        retrieval=RetrievalConfig(temperature=0.15),
        train=TrainConfig(lr=2e-3, ema=0.99),
    ),
    "own-ranking": Config(
        task="ranking",
        dataset="own",
        model=ModelConfig(max_items=100, interleave=True),
        train=TrainConfig(steps=150),
    ),
    # A minute on one core: that data, model, checkpoint and report work.
    "smoke": Config(
        task="retrieval",
        model=_model(16, 1, 1, max_items=50, dropout=0.1),
        train=TrainConfig(batch=64, steps=30, eval_every=15, ema=0.9, warmup=5, clip=1.0),
    ),
}
