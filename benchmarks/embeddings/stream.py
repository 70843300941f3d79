"""Random ids by a power law, and two calls timed in turn."""

import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

EXPONENT = 1.05


class PowerLaw:
    """N random 64-bit ids; id of rank r is drawn with probability proportional to r^-1.05."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.ids = torch.from_numpy(self._random.integers(-(2**63), 2**63 - 1, count))
        shares = np.arange(1, count + 1, dtype=np.float64) ** -EXPONENT
        self._cumulated = np.cumsum(shares) / shares.sum()

    def ranks(self, count: int) -> torch.Tensor:
        """(count,) int64 in [0, N), by the law; ids lie in memory at random places whatever their rank."""
        drawn = np.searchsorted(self._cumulated, self._random.random(count))
        return torch.from_numpy(drawn.clip(0, len(self._cumulated) - 1))


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two calls for the same work; each takes the number of the round."""

    name: str
    peer: str
    unit: str  # of the speed: of `amount` per second
    amount: float
    ours: Callable[[int], object]
    theirs: Callable[[int], object]


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str
    peer: str
    ours: float  # amount per second
    theirs: float
    unit: str
    ratio: float  # median of the rounds' ratios, above 1: ours is faster
    low: float
    high: float


def seconds(call: Callable[[int], object], number: int) -> float:
    """Processor time of the calling thread: other work on the machine hardly enters."""
    started = time.thread_time()
    call(number)
    return time.thread_time() - started


def run(duel: Duel, rounds: int) -> Result:
    """The first two rounds warm up."""
    times = [(seconds(duel.ours, i), seconds(duel.theirs, i)) for i in range(rounds + 2)][2:]
    low, middle, high = statistics.quantiles([theirs / ours for ours, theirs in times], n=4)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    return Result(
        name=duel.name,
        peer=duel.peer,
        ours=duel.amount / ours,
        theirs=duel.amount / theirs,
        unit=duel.unit,
        ratio=middle,
        low=low,
        high=high,
    )


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    versions = {name: importlib.metadata.version(name) for name in ("torch", "fbgemm_gpu_cpu", "torchrec")}
    return {"cpu": (models or [platform.machine()])[0], "cpus": os.cpu_count(), "load": os.getloadavg()[0], **versions}
