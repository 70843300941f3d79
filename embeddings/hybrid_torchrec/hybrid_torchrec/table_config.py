"""What a table is."""

import inspect
from dataclasses import dataclass, field

import torch

from hybrid_torchrec.initializers import Initializer, Uniform
from hybrid_torchrec.optimizers import KINDS, OptimizerSpec
from hybrid_torchrec.policies import AdmissionPolicy, AdmitAll, EvictionPolicy, rank_of_policy

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """dim: D, columns of a row. dtype: of the stored rows; arithmetic and optimizer state are float32.

    max_rows: rows at most; None: the table grows. Without an eviction policy a table at max_rows raises TableFull.
    stochastic_rounding: of 16-bit rows after an update, by a hash of (seed, update, slot, column). first_key: of an
    initialiser by order of insertion, the number of the first row.

    Raises TypeError for an optimizer, initialiser or policy that is not one, with those that are known, and ValueError
    for sizes that no table has.
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
    first_key: int = 0

    def __post_init__(self) -> None:
        where = f"table '{self.name}'"
        self._check_kinds(where)
        for name in ("dim", "initial_capacity", "max_rows", "seed", "first_key"):
            value = getattr(self, name)
            if not isinstance(value, int) and not (name == "max_rows" and value is None):
                raise ValueError(f"{where}: {name} must be an integer, got {value!r}")
        if self.dim < 1:
            raise ValueError(f"{where}: dim must be at least 1, got {self.dim}")
        if self.dtype not in DTYPES:
            raise ValueError(f"{where}: dtype must be one of {DTYPES}, got {self.dtype}")
        if self.initial_capacity < 0:
            raise ValueError(f"{where}: initial_capacity must not be negative, got {self.initial_capacity}")
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError(f"{where}: max_rows must be at least 1, or None; got {self.max_rows}")
        if self.eviction is not None and self.max_rows is None and not self.eviction.expires:
            raise ValueError(f"{where}: {type(self.eviction).__name__} evicts at max_rows, which is None; set it")

    def _check_kinds(self, where: str) -> None:
        kinds = (
            (
                "optimizer",
                OptimizerSpec,
                f"an OptimizerSpec, as OptimizerSpec(kind='adam', lr=0.01), of {tuple(KINDS)}",
            ),
            ("initializer", Initializer, "one of Constant, Uniform, Normal, TruncatedNormal, Filled"),
            ("admission", AdmissionPolicy, "one of AdmitAll, AdmitAfter, AdmitWithProbability"),
        )
        for name, kind, known in kinds:
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"{where}: {name} must be {known}; got {_shown(value, kind)}")
        if self.eviction is not None:
            try:
                rank_of_policy(self.eviction)
            except TypeError as error:
                raise TypeError(f"{where}: {error}; got {_shown(self.eviction, EvictionPolicy)}") from None


def _shown(value: object, kind: type) -> str:
    if inspect.isclass(value) and issubclass(value, kind):
        return f"{value.__name__}: an object, not the class: {value.__name__}()"
    return repr(value)
