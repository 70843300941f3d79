"""How new rows get their values.

Values come from a counter-based hash (SplitMix64), 32 bits for each element, and are the same on every device: they are
computed on the CPU, and on CUDA devices by the same operations in float64 (backends/cuda/row_kernels.py), of which only
the logarithm in a normal's tails may differ in its last bit, which one float32 in some 10^8 shows.
``per_id=True``: element (id, column) depends on (seed, id, column) only, so an id has the same first vector on any
shard count and whenever it comes. ``per_id=False``: on the row's place in the order of insertions instead of the id.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from hybrid_torchrec.kinds import INITIALIZERS


@dataclass(frozen=True, kw_only=True)
class Initializer(abc.ABC):
    """Base of all initialisers."""

    per_id: bool = True

    @abc.abstractmethod
    def rows(self, keys: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
        """First values of the rows of keys (R,) int64 on the CPU; returns (R, dim) float32."""

    def default_row(self, dim: int, seed: int) -> torch.Tensor:
        """What ids without a row read: the row of a key drawn from the table's seed; (dim,) float32."""
        return self.rows(torch.zeros(1, dtype=torch.int64), dim, ~seed)[0]


@dataclass(frozen=True, kw_only=True)
class Distribution(Initializer):
    """Elements that are drawn one by one, which the devices' kernels do themselves."""

    kind: ClassVar[int]

    @abc.abstractmethod
    def parameters(self) -> tuple[float, float, float, float]:
        """a, b, low, high of ``torch.ops.hybrid_torchrec.initial_rows``."""

    def rows(self, keys: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
        return torch.ops.hybrid_torchrec.initial_rows(keys, dim, self.kind, *self.parameters(), seed)


@dataclass(frozen=True, kw_only=True)
class Constant(Distribution):
    """Every element is ``value``."""

    value: float = 0.0
    kind: ClassVar[int] = INITIALIZERS["Constant"].number

    def parameters(self) -> tuple[float, float, float, float]:
        return self.value, 0.0, 0.0, 1.0


@dataclass(frozen=True, kw_only=True)
class Uniform(Distribution):
    """Uniform on (low, high)."""

    low: float = -0.05
    high: float = 0.05
    kind: ClassVar[int] = INITIALIZERS["Uniform"].number

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"Uniform: low must not exceed high, got low={self.low}, high={self.high}")

    def parameters(self) -> tuple[float, float, float, float]:
        return self.low, self.high, 0.0, 1.0


@dataclass(frozen=True, kw_only=True)
class Normal(Distribution):
    """Normal, by the inverse of its distribution function."""

    mean: float = 0.0
    std: float = 0.01
    kind: ClassVar[int] = INITIALIZERS["Normal"].number

    def __post_init__(self) -> None:
        if self.std < 0:
            raise ValueError(f"Normal: std must not be negative, got {self.std}")

    def parameters(self) -> tuple[float, float, float, float]:
        return self.mean, self.std, 0.0, 1.0


@dataclass(frozen=True, kw_only=True)
class TruncatedNormal(Distribution):
    """Normal, conditional on lying within [low, high] standard deviations around the mean."""

    mean: float = 0.0
    std: float = 0.01
    low: float = -2.0
    high: float = 2.0
    kind: ClassVar[int] = INITIALIZERS["TruncatedNormal"].number

    def __post_init__(self) -> None:
        if self.std < 0:
            raise ValueError(f"TruncatedNormal: std must not be negative, got {self.std}")
        if not -7.0 <= self.low < self.high <= 7.0:
            raise ValueError(
                f"TruncatedNormal: low and high count standard deviations, -7 <= low < high <= 7; "
                f"got low={self.low}, high={self.high}"
            )

    def parameters(self) -> tuple[float, float, float, float]:
        return self.mean, self.std, _below(self.low), _below(self.high)


@dataclass(frozen=True, kw_only=True)
class Filled(Initializer):
    """A caller's function, as torchrec's ``init_fn``: it writes into a (1, D) float32 parameter, one for each new row.

    Before each call torch's CPU generator is seeded by the row's key (and afterwards is as it was), so that drawn rows
    are the same on any shard count too. A row takes some 30 us, ten times what the initialisers above take and more.
    """

    fill: Callable[[torch.Tensor], object]

    def rows(self, keys: torch.Tensor, dim: int, seed: int) -> torch.Tensor:
        rows = torch.empty(len(keys), dim)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for row, key in zip(rows, keys.tolist()):
                torch.default_generator.manual_seed(_mixed(_mixed(seed) ^ key))
                parameter = torch.nn.Parameter(row.unsqueeze(0), requires_grad=False)
                parameter.data.zero_()
                self.fill(parameter)
                row.copy_(parameter.reshape(dim))
        return rows


def _mixed(x: int) -> int:
    """SplitMix64's finaliser, of any int; unsigned."""
    mask = 2**64 - 1
    x &= mask
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
    return x ^ x >> 31


def _below(x: float) -> float:
    """The probability that a standard normal variable is below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
