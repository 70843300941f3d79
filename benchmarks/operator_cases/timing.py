"""Two sides of a case timed in turn, so that both see the same machine.

With one thread the clock is the processor time of the thread, which other work on the machine hardly enters. With
several it is the wall clock: those rows want an idle machine. A ratio is the median of the ratios of neighbouring
samples; its spread are their quartiles.

A sample is a first call, which finds in the caches what the other side has left there, and calls in a row, which find
what their own side has left. Both are kept: the ratio that counts is that of the calls in a row, where the two sides
stand alike. A first call depends on the neighbour's footprint, and the side whose calls are shorter would have more
calls that are not the first in its samples.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from .cases import Call, Case, Prepared
from .shares import key

SAMPLE_SECONDS = 0.0005  # short, so that most samples are not interrupted by other work on the machine
FEWEST_PAIRS, MOST_PAIRS = 7, 80
TWICE = 2.0  # what is asked for beside a single-threaded peer, given a second thread, for calls that are worth one
WORTH_A_THREAD = 50e-6  # seconds


@dataclass(frozen=True, kw_only=True)
class Row:
    operator: str
    shape: str
    peer: str
    threads: int
    ours_ms: float  # median
    peer_ms: float
    ratio: float  # peer / ours: above 1 we are faster
    low: float  # quartiles of the ratios
    high: float
    first: float  # the ratio of the first calls, each after the other side's
    pairs: int
    peer_share: float | None  # of the peer's processor time, spent by other threads than the caller's, where it matters
    target: float
    alone: bool  # the peer is single-threaded: the others do less than a third of their even share
    gb_per_s: float | None
    gflop_per_s: float | None

    @property
    def missed(self) -> bool:
        return self.ratio < self.target


Clock = Callable[[], float]


@dataclass(frozen=True)
class Sample:
    """Seconds of a call that comes after the other side's, and of one that comes after its own side's."""

    first: float
    seconds: float


def _timed(calls: Sequence[Call], clock: Clock) -> float:
    start = clock()
    for call in calls:
        call()
    return (clock() - start) / len(calls)


def _sample(side: Call | Prepared, calls: int, clock: Clock) -> Sample:
    """`calls` in a row after a first one. What prepares a call is its own side's: it needs no other before it."""
    if isinstance(side, Prepared):
        seconds = _timed([side.prepare()], clock)
        return Sample(seconds, seconds)
    first = _timed([side], clock)
    return Sample(first, _timed([side] * calls, clock))


def _calls(side: Call | Prepared, clock: Clock) -> int:
    seconds = _sample(side, 1, clock).seconds
    if seconds > 100 * SAMPLE_SECONDS:
        return 1
    return max(1, int(SAMPLE_SECONDS / max(_sample(side, 2, clock).seconds, 1e-9)))


def _tensors(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in _tensors(part)] if isinstance(result, (list, tuple)) else []


def check(case: Case) -> None:
    """Both sides compute the same."""
    if case.verify is not None:
        case.verify()
    if case.tolerance is None or isinstance(case.ours, Prepared) or isinstance(case.theirs, Prepared):
        return
    ours, theirs = _tensors(case.ours()), _tensors(case.theirs())
    torch.testing.assert_close(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


def measure(case: Case, seconds: float, peer_share: float | None) -> Row:
    """As many pairs as fit into `seconds`, FEWEST_PAIRS at least."""
    threads = torch.get_num_threads()
    clock = time.thread_time if threads == 1 else time.perf_counter
    calls = [_calls(side, clock) for side in (case.ours, case.theirs)]
    pairs: list[tuple[Sample, Sample]] = []
    started = time.perf_counter()
    while len(pairs) < FEWEST_PAIRS or (len(pairs) < MOST_PAIRS and time.perf_counter() - started < seconds):
        if len(pairs) % 2 == 0:
            ours = _sample(case.ours, calls[0], clock)
            pairs.append((ours, _sample(case.theirs, calls[1], clock)))
        else:
            theirs = _sample(case.theirs, calls[1], clock)
            pairs.append((_sample(case.ours, calls[0], clock), theirs))
    low, middle, high = statistics.quantiles([b.seconds / a.seconds for a, b in pairs], n=4)
    ours_seconds, peer_seconds = (statistics.median(pair[i].seconds for pair in pairs) for i in (0, 1))
    alone = peer_share is not None and peer_share < (1 - 1 / threads) / 3
    twice = alone and peer_seconds > WORTH_A_THREAD
    return Row(
        operator=case.operator,
        shape=case.shape,
        peer=case.peer,
        threads=threads,
        ours_ms=ours_seconds * 1e3,
        peer_ms=peer_seconds * 1e3,
        ratio=middle,
        low=low,
        high=high,
        first=statistics.median(b.first / a.first for a, b in pairs),
        pairs=len(pairs),
        peer_share=peer_share,
        target=TWICE if twice else case.target,
        alone=alone,
        gb_per_s=case.moved_bytes / ours_seconds / 1e9 if case.moved_bytes else None,
        gflop_per_s=case.flops / ours_seconds / 1e9 if case.flops else None,
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
