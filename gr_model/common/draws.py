"""Random numbers by what they are for, not by the order in which they are asked for.

With `train.deterministic` a number follows from the seed, the step, the user, the place in the user's sequence, the
module and the column alone. So it is the same on every device, however the users are spread over processes, and when
activations are computed a second time. The generator is the finaliser of splitmix64 (Steele et al. 2014) on a counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch  # when it draws: data sets that are made need none

GOLDEN = 0x9E3779B97F4A7C15
NEGATIVES, IN_BATCH, WINDOW, LENGTH = ((1 << 20) + i for i in range(4))  # streams; dropout modules count from 0
Numbers: TypeAlias = Sequence[int] | np.ndarray
_rows: np.ndarray | None = None


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _number(value: int) -> np.ndarray:
    return np.array([value % 2**64], np.uint64)


def rows(seed: int, step: int, users: Numbers, counts: Numbers) -> np.ndarray:
    """[sum(counts)] uint64: a key for each place of each user's sequence."""
    of_step = _mix(_mix(_number(seed * GOLDEN)) + _number((step + 1) * GOLDEN))
    of_user = _mix(of_step + np.array(users, np.uint64) * np.uint64(GOLDEN))
    place = np.arange(sum(counts)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _mix(np.repeat(of_user, counts) + place.astype(np.uint64) * np.uint64(GOLDEN))


def _bits(keys_L: np.ndarray, stream: int, columns: int) -> np.ndarray:
    """[L, columns] uint64."""
    of_column = _mix(_number(stream * GOLDEN) + np.arange(1, columns + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    return _mix(keys_L[:, None] + of_column)


def uniform(keys_L: np.ndarray, stream: int, columns: int) -> torch.Tensor:
    """[L, columns] float32 in [0, 1)."""
    import torch

    return torch.from_numpy((_bits(keys_L, stream, columns) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24))


def integers(keys_L: np.ndarray, stream: int, columns: int, high: int) -> torch.Tensor:
    """[L, columns] int64 in [0, high); high at most 2**32."""
    import torch

    scaled = (_bits(keys_L, stream, columns) >> np.uint64(32)) * np.uint64(high)
    return torch.from_numpy((scaled >> np.uint64(32)).astype(np.int64))


def chances(keys_L: np.ndarray, stream: int, columns: int) -> np.ndarray:
    """[L, columns] float64 in [0, 1), with 53 bits: fine enough for the rarest of many millions of items."""
    return (_bits(keys_L, stream, columns) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(keys_L: np.ndarray, stream: int, columns: int) -> np.ndarray:
    """[L, columns] float64 from N(0, 1), by the transform of Box and Muller (1958)."""
    far, around = np.split(chances(keys_L, stream, 2 * columns), 2, axis=1)
    return np.sqrt(-2 * np.log1p(-far)) * np.cos(2 * np.pi * around)


@contextmanager
def for_rows(keys_L: np.ndarray | None) -> Iterator[None]:
    """Dropout of tensors with a row per key draws by these keys while this is open."""
    global _rows
    before, _rows = _rows, keys_L
    try:
        yield
    finally:
        _rows = before


def for_tensor(shape: torch.Size, stream: int) -> torch.Tensor:
    """Uniform numbers on the host: by key where the rows are those of the step, else by torch's generator."""
    if _rows is None or len(shape) != 2 or shape[0] != len(_rows):
        import torch

        return torch.rand(shape)
    return uniform(_rows, stream, shape[1])
