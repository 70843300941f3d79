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
from kept_memory import faults

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
    """Two calls for the same work; each takes the number of the round, and has a batch of its own for each round."""

    name: str
    peer: str
    unit: str  # of the speed: of `amount` per second
    amount: float
    ours: Callable[[int], object]
    theirs: Callable[[int], object]
    prepare: Callable[[int], object] = lambda _: None  # before a round, in nobody's time
    asked: float = 1.0  # of the ratio; 0: nothing, the peer is a bound


@dataclass(frozen=True, kw_only=True)
class Timing:
    ours: float  # amount per second
    theirs: float
    ratio: float  # median of the rounds' ratios, above 1: ours is faster
    low: float
    high: float
    faults: tuple[float, float]  # pages that the system gave in a call: ours, theirs


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str
    peer: str
    unit: str
    asked: float
    cold: Timing  # calls on a batch that is new
    warm: Timing  # on the batch of the call before

    @property
    def missed(self) -> bool:
        return min(self.cold.ratio, self.warm.ratio) < self.asked


Call = tuple[float, int]


def timed(call: Callable[[int], object], number: int) -> Call:
    """Processor time of the calling thread, which other work on the machine hardly enters, and faults of pages."""
    before, started = faults(), time.thread_time()
    call(number)
    return time.thread_time() - started, faults() - before


def timing(amount: float, calls: list[tuple[Call, Call]]) -> Timing:
    low, middle, high = statistics.quantiles([theirs / ours for (ours, _), (theirs, _) in calls], n=4)
    ours, theirs = (
        [statistics.median(column) for column in zip(*side, strict=True)] for side in zip(*calls, strict=True)
    )
    return Timing(
        ours=amount / ours[0], theirs=amount / theirs[0], ratio=middle, low=low, high=high, faults=(ours[1], theirs[1])
    )


WARM_UP = 2  # rounds


def run(duel: Duel, rounds: int) -> Result:
    """Each round has a new batch: a side's first call on it is cold, its second warm. Sides begin in turn."""
    pairs = []
    for i in range(rounds + WARM_UP):
        duel.prepare(i)
        sides = (duel.ours, duel.theirs)
        calls: dict[int, tuple[Call, Call]] = {}
        for side in (i % 2, 1 - i % 2):
            calls[side] = (timed(sides[side], i), timed(sides[side], i))
        pairs.append((calls[0], calls[1]))
    cold, warm = ([(ours[way], theirs[way]) for ours, theirs in pairs[WARM_UP:]] for way in (0, 1))
    return Result(
        name=duel.name,
        peer=duel.peer,
        unit=duel.unit,
        asked=duel.asked,
        cold=timing(duel.amount, cold),
        warm=timing(duel.amount, warm),
    )


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    versions = {name: importlib.metadata.version(name) for name in ("torch", "fbgemm_gpu_cpu", "torchrec")}
    return {"cpu": (models or [platform.machine()])[0], "cpus": os.cpu_count(), "load": os.getloadavg()[0], **versions}
