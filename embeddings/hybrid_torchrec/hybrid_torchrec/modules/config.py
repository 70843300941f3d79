"""torchrec's table configs with the fields of a hash table."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor
from torchrec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    DataType,
    EmbeddingBagConfig,
    EmbeddingConfig,
    data_type_to_dtype,
)

from hybrid_torchrec.initializers import Filled, Initializer, Uniform
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import AdmissionPolicy, AdmitAll, EvictionPolicy
from hybrid_torchrec.table import TableConfig

STORAGE_TYPES = (DataType.FP32, DataType.FP16, DataType.BF16)


@dataclass
class HashTableFields:
    """What a hash table has beside the fields of torchrec's configs.

    `num_embeddings` is the number of rows that the planner reckons with; the table starts small and takes any id.

    Args:
        optimizer: its fused optimizer. One given by apply_optimizer_in_backward goes before it, the sharder's
            fused_params after it; SGD where there is none.
        initializer: of new rows. Default: torchrec's init_fn, called with one row (1, D) at a time (see Filled), or
            where there is none uniform between torchrec's weight_init_min and weight_init_max; by id.
        admission: which ids get a row.
        eviction: which rows go when the table is at max_rows; None: TableFull is raised.
        initial_capacity: rows for which memory is made at first, over all ranks.
        max_rows: limit, over all ranks (each rank has its share); None: grows as long as there is memory.
        seed: of the initialiser and of random admission, with the table's name.
    """

    optimizer: OptimizerSpec | None = None
    initializer: Initializer | None = None
    admission: AdmissionPolicy = field(default_factory=AdmitAll)
    eviction: EvictionPolicy | None = None
    initial_capacity: int | None = None
    max_rows: int | None = None
    seed: int = 0


def _check(config: BaseEmbeddingConfig) -> None:
    if config.data_type not in STORAGE_TYPES:
        names = ", ".join(kind.name for kind in STORAGE_TYPES)
        raise ValueError(f"table {config.name}: data_type {config.data_type} cannot be trained; one of {names}")
    if config.num_embeddings_post_pruning is not None:
        raise ValueError(
            f"table {config.name}: num_embeddings_post_pruning renumbers the rows of a static table; "
            "a hash table has no numbers, limit it with max_rows"
        )
    if config.embedding_dim < 1 or config.num_embeddings < 1:
        raise ValueError(f"table {config.name}: embedding_dim and num_embeddings must be at least 1, got {config}")
    for name in ("max_rows", "initial_capacity"):
        value = getattr(config, name)
        if value is not None and not isinstance(value, int):
            raise ValueError(f"table {config.name}: {name} must be an integer or None, got {value!r}")


def check(config: HashConfig) -> None:
    """Raises ValueError or TypeError for settings of which no table can be made; configs may be changed until then."""
    _check(config)
    table_config(config, OptimizerSpec() if config.optimizer is None else config.optimizer)


def _is_torchrec_default(init_fn: object) -> bool:
    """What BaseEmbeddingConfig puts there itself, e.g. in dataclasses.replace."""
    return isinstance(init_fn, functools.partial) and init_fn.func is torch.nn.init.uniform_


@dataclass
class HashEmbeddingBagConfig(HashTableFields, EmbeddingBagConfig):
    """EmbeddingBagConfig of a table that takes any int64 id."""

    def __post_init__(self) -> None:
        _check(self)
        super().__post_init__()
        check(self)


@dataclass
class HashEmbeddingConfig(HashTableFields, EmbeddingConfig):
    """EmbeddingConfig of a table that takes any int64 id."""

    def __post_init__(self) -> None:
        _check(self)
        super().__post_init__()
        check(self)


HashConfig = HashEmbeddingBagConfig | HashEmbeddingConfig


@dataclass(frozen=True, kw_only=True)
class ColumnsOf(Initializer):
    """Columns [first, first + dim) of the rows that `whole` gives a table of `columns` columns."""

    whole: Initializer
    columns: int
    first: int

    def rows(self, keys: Tensor, dim: int, seed: int) -> Tensor:
        return self.whole.rows(keys, self.columns, seed)[:, self.first : self.first + dim].contiguous()

    def default_row(self, dim: int, seed: int) -> Tensor:
        return self.whole.default_row(self.columns, seed)[self.first : self.first + dim].contiguous()


C = TypeVar("C", HashEmbeddingBagConfig, HashEmbeddingConfig)


def hash_config(config: BaseEmbeddingConfig, kind: type[C]) -> C:
    """`config` if it is of `kind`; one of torchrec's with the defaults of a hash table."""
    if isinstance(config, kind):
        return config
    names = {f.name for f in dataclasses.fields(kind)}
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    if unknown := sorted(fields.keys() - names):
        raise TypeError(
            f"table {config.name}: a {type(config).__name__} has {', '.join(unknown)}, which a {kind.__name__} has not"
        )
    return kind(**fields)


def initializer_of(config: HashConfig) -> Initializer:
    if config.initializer is not None:
        return config.initializer
    if config.init_fn is not None and not _is_torchrec_default(config.init_fn):
        if not callable(config.init_fn):
            raise TypeError(f"table {config.name}: init_fn must be a function of a row, got {config.init_fn!r}")
        return Filled(fill=config.init_fn)
    return Uniform(low=config.get_weight_init_min(), high=config.get_weight_init_max())


def seed_of(config: HashConfig) -> int:
    """Two tables must not give an id the same row."""
    return (zlib.crc32(config.name.encode()) << 24) + config.seed


def dtype_of(config: HashConfig) -> torch.dtype:
    dtype: torch.dtype = data_type_to_dtype(config.data_type)
    return dtype


def table_config(
    config: HashConfig,
    spec: OptimizerSpec,
    *,
    column: int = 0,
    width: int | None = None,
    share: int = 0,
    shares: int = 1,
) -> TableConfig:
    """Of a part: columns [column, column + width) and about one in `shares` of the ids."""
    initializer = initializer_of(config)
    if width is None:
        width = config.embedding_dim
    elif width != config.embedding_dim:
        initializer = ColumnsOf(
            whole=initializer, columns=config.embedding_dim, first=column, per_id=initializer.per_id
        )
    made = TableConfig(
        name=config.name,
        dim=width,
        dtype=dtype_of(config),
        optimizer=spec,
        initializer=initializer,
        admission=config.admission,
        eviction=config.eviction,
        seed=seed_of(config),
        # Rows by order of insertion are not the same on every rank; 2^40 of them are a rank's.
        first_key=share << 40,
        max_rows=None if config.max_rows is None else -(-config.max_rows // shares),
    )
    if config.initial_capacity is not None:
        made = dataclasses.replace(made, initial_capacity=-(-config.initial_capacity // shares))
    return made
