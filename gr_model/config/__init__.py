"""Everything a run depends on: settings, what they may be, presets, and what to say of a wrong one."""

from gr_model.config.data import DataConfig
from gr_model.config.embedding import EmbeddingConfig
from gr_model.config.overrides import override, resumed
from gr_model.config.settings import (
    Config,
    ConfigError,
    ModelConfig,
    RankingConfig,
    RetrievalConfig,
    TrainConfig,
    from_json,
    keys,
    to_json,
)
from gr_model.config.synthetic import SyntheticConfig

__all__ = [
    "Config",
    "ConfigError",
    "DataConfig",
    "EmbeddingConfig",
    "ModelConfig",
    "RankingConfig",
    "RetrievalConfig",
    "SyntheticConfig",
    "TrainConfig",
    "from_json",
    "keys",
    "override",
    "resumed",
    "to_json",
]
