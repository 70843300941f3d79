"""TorchRec's table configs for hashed ids: the same fields, and those of a HashTable."""

from dataclasses import dataclass, field

import torch
from torchrec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    EmbeddingBagConfig,
    EmbeddingConfig,
    data_type_to_dtype,
)

from hybrid_torchrec.initializers import Initializer, Uniform
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import AdmissionPolicy, AdmitAll, EvictionPolicy
from hybrid_torchrec.table.config import TableConfig

__all__ = ["HashEmbeddingBagConfig", "HashEmbeddingConfig", "TableConfig", "table_config"]


@dataclass
class _HashFields:
    """num_embeddings is the number of rows expected: a table of that many is laid out, and it may grow to max_rows.

    optimizer None: the one that the modules or the sharder are given. initializer None: uniform on
    (weight_init_min, weight_init_max), by default plus and minus sqrt(1 / num_embeddings) as in TorchRec, per id.
    """

    optimizer: OptimizerSpec | None = None
    initializer: Initializer | None = None
    admission: AdmissionPolicy = field(default_factory=AdmitAll)
    eviction: EvictionPolicy | None = None
    initial_capacity: int | None = None
    max_rows: int | None = None
    seed: int = 0
    stochastic_rounding: bool = False


@dataclass
class HashEmbeddingBagConfig(_HashFields, EmbeddingBagConfig):
    """EmbeddingBagConfig of a table that takes any 64-bit id."""


@dataclass
class HashEmbeddingConfig(_HashFields, EmbeddingConfig):
    """EmbeddingConfig of a table that takes any 64-bit id."""


HashConfig = HashEmbeddingBagConfig | HashEmbeddingConfig


def table_config(config: HashConfig, optimizer: OptimizerSpec | None = None, shards: int = 1) -> TableConfig:
    """The HashTable of a config; optimizer: of tables that name none. shards: over how many its rows are spread."""
    assert isinstance(config, BaseEmbeddingConfig)
    dtype = data_type_to_dtype(config.data_type)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"table '{config.name}': unsupported data_type {config.data_type}")
    initializer = config.initializer
    if initializer is None:
        initializer = Uniform(low=config.get_weight_init_min(), high=config.get_weight_init_max())
    capacity = config.num_embeddings if config.initial_capacity is None else config.initial_capacity
    return TableConfig(
        name=config.name,
        dim=config.embedding_dim,
        dtype=dtype,
        optimizer=config.optimizer or optimizer or OptimizerSpec(),
        initializer=initializer,
        admission=config.admission,
        eviction=config.eviction,
        initial_capacity=-(-capacity // shards),
        max_rows=None if config.max_rows is None else -(-config.max_rows // shards),
        seed=config.seed,
        stochastic_rounding=config.stochastic_rounding,
    )
