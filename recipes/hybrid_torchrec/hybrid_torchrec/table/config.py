"""What a table is."""

from dataclasses import dataclass, field

import torch

from hybrid_torchrec.initializers import Initializer, Uniform
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.policies import AdmissionPolicy, AdmitAll, EvictionPolicy

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """dim: D, columns of a row. dtype: of the stored rows; arithmetic and optimizer state are float32.

    max_rows: rows at most; None: the table grows. Without an eviction policy a table at max_rows raises TableFull.
    stochastic_rounding: of 16-bit rows after an update, by a hash of (seed, update, slot, column).
    """

    name: str
    dim: int
    dtype: torch.dtype = torch.float32
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    initializer: Initializer = field(default_factory=Uniform)
    admission: AdmissionPolicy = field(default_factory=AdmitAll)
    eviction: EvictionPolicy | None = None
    initial_capacity: int = 1024
    max_rows: int | None = None
    seed: int = 0
    stochastic_rounding: bool = False

    def __post_init__(self) -> None:
        where = f"table '{self.name}'"
        if self.dim < 1:
            raise ValueError(f"{where}: dim must be at least 1, got {self.dim}")
        if self.dtype not in DTYPES:
            raise ValueError(f"{where}: dtype must be one of {DTYPES}, got {self.dtype}")
        if self.initial_capacity < 0:
            raise ValueError(f"{where}: initial_capacity must not be negative, got {self.initial_capacity}")
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError(f"{where}: max_rows must be at least 1, or None; got {self.max_rows}")
        if self.eviction is not None and self.max_rows is None and type(self.eviction).__name__ != "TTL":
            raise ValueError(f"{where}: {type(self.eviction).__name__} evicts at max_rows, which is None; set it")
