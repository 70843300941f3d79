"""The rule by which every row is measured: two sides of a case timed in turn, so that both see the same machine.

Cold: a sample is calls that take 50 us together, one at least, each on the next of the case's batches, as training
takes them. The other side's sample comes between, on other batches. Warm: a sample is calls that take half a
millisecond, one at least, all on the first batch, after one that does not count. Both count: a row is missed where
either ratio is below what is asked for. A ratio is the median of the ratios of neighbouring samples; its spread are
their quartiles.

With one thread the clock is the processor time of the thread, which other work on the machine hardly enters. With
several it is the wall clock: those rows want an idle machine. Neither side pays for fresh memory (memory.py).
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from . import memory
from .cases import Call, Case, Side
from .shares import key

COLD_SECONDS, WARM_SECONDS = 50e-6, 500e-6  # short, so that most samples are not interrupted by other work
FEWEST_PAIRS, MOST_PAIRS = 7, 100
TWICE = 2.0  # what is asked for beside a single-threaded peer, given a second thread, for calls that are worth one
WORTH_A_THREAD = 50e-6  # seconds


@dataclass(frozen=True, kw_only=True)
class Timing:
    ours_ms: float  # median
    peer_ms: float
    ratio: float  # peer / ours: above 1 we are faster
    low: float  # quartiles of the ratios
    high: float
    pairs: int
    faults: tuple[float, float]  # page faults of a call of ours and of the peer's


@dataclass(frozen=True, kw_only=True)
class Row:
    operator: str
    shape: str
    peer: str
    threads: int
    cold: Timing
    warm: Timing
    peer_share: float | None  # of the peer's processor time, spent by other threads than the caller's, where it matters
    target: float
    alone: bool  # the peer is single-threaded: the others do less than a third of their even share
    gb_per_s: float | None  # cold
    gflop_per_s: float | None

    @property
    def missed(self) -> bool:
        return min(self.cold.ratio, self.warm.ratio) < self.target


Clock = Callable[[], float]


@dataclass(frozen=True)
class Sample:
    seconds: float  # of a call
    faults: float


def _timed(calls: Sequence[Call], clock: Clock) -> Sample:
    faults = memory.faults()
    start = clock()
    for call in calls:
        call()
    seconds = clock() - start
    return Sample(seconds / len(calls), (memory.faults() - faults) / len(calls))


class Cold:
    """Samples of a side, each call on a batch of its own."""

    def __init__(self, side: Side, batches: int, first: int, seconds: float) -> None:
        self._side, self._batches, self._next = side, batches, first
        self._calls = min(batches, max(1, int(COLD_SECONDS / seconds)))

    def __call__(self, clock: Clock) -> Sample:
        numbers = [(self._next + i) % self._batches for i in range(self._calls)]
        self._next += self._calls
        return _timed([self._side(number) for number in numbers], clock)


class Warm:
    """Samples of a side, all calls on the same batch."""

    def __init__(self, side: Side, seconds: float) -> None:
        self._side = side
        self._calls = max(1, int(WARM_SECONDS / seconds))

    def __call__(self, clock: Clock) -> Sample:
        self._side(0)()
        return _timed([self._side(0) for _ in range(self._calls)], clock)


def _seconds(side: Side, clock: Clock) -> float:
    """Of a call, about."""
    side(0)()
    return max(_timed([side(0)], clock).seconds, 1e-7)


def _duel(sides: Sequence[Callable[[Clock], Sample]], clock: Clock, seconds: float) -> Timing:
    """As many pairs as fit into `seconds`, FEWEST_PAIRS at least."""
    pairs: list[tuple[Sample, Sample]] = []
    started = time.perf_counter()
    while len(pairs) < FEWEST_PAIRS or (len(pairs) < MOST_PAIRS and time.perf_counter() - started < seconds):
        if len(pairs) % 2 == 0:
            ours = sides[0](clock)
            pairs.append((ours, sides[1](clock)))
        else:
            theirs = sides[1](clock)
            pairs.append((sides[0](clock), theirs))
    low, middle, high = statistics.quantiles([b.seconds / a.seconds for a, b in pairs], n=4)
    ours_seconds, peer_seconds = (statistics.median(pair[i].seconds for pair in pairs) for i in (0, 1))
    return Timing(
        ours_ms=ours_seconds * 1e3,
        peer_ms=peer_seconds * 1e3,
        ratio=middle,
        low=low,
        high=high,
        pairs=len(pairs),
        faults=tuple(statistics.median(pair[i].faults for pair in pairs) for i in (0, 1)),
    )


def _tensors(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in _tensors(part)] if isinstance(result, (list, tuple)) else []


def check(case: Case) -> None:
    """Both sides compute the same, of the first batch and of the last."""
    if case.verify is not None:
        case.verify()
    if case.tolerance is None:
        return
    for batch in (0, case.batches - 1):
        ours, theirs = _tensors(case.ours(batch)()), _tensors(case.theirs(batch)())
        torch.testing.assert_close(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


def measure(case: Case, seconds: float, peer_share: float | None) -> Row:
    """For `seconds` cold and as long warm."""
    threads = torch.get_num_threads()
    clock = time.thread_time if threads == 1 else time.perf_counter
    sides = (case.ours, case.theirs)
    about = [_seconds(side, clock) for side in sides]
    starts = (0, case.batches // 2)
    cold = _duel([Cold(s, case.batches, first, t) for s, first, t in zip(sides, starts, about)], clock, seconds)
    warm = _duel([Warm(s, t) for s, t in zip(sides, about)], clock, seconds)
    alone = peer_share is not None and peer_share < (1 - 1 / threads) / 3
    twice = alone and cold.peer_ms > WORTH_A_THREAD * 1e3
    return Row(
        operator=case.operator,
        shape=case.shape,
        peer=case.peer,
        threads=threads,
        cold=cold,
        warm=warm,
        peer_share=peer_share,
        target=TWICE if twice else case.target,
        alone=alone,
        gb_per_s=case.moved_bytes / cold.ours_ms / 1e6 if case.moved_bytes else None,
        gflop_per_s=case.flops / cold.ours_ms / 1e6 if case.flops else None,
    )


def run(cases: Iterator[Case], threads: Sequence[int], seconds: float, peer_shares: dict[str, float]) -> Iterator[Row]:
    """Every case with each number of threads; the setting of the process is as before at the end."""
    before = torch.get_num_threads()
    try:
        for case in cases:
            check(case)
            for count in threads:
                torch.set_num_threads(count)
                yield measure(case, seconds, peer_shares.get(key(case, count)))
            torch.set_num_threads(before)
    finally:
        torch.set_num_threads(before)
