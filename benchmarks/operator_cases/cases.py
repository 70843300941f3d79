"""What is compared: a call of ours, the same call of a named peer, each on batches that differ from call to call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

Call = Callable[[], object]
# Of the number of a batch: the call to time on it. What it does before, such as the forward pass of a backward pass, is
# not timed.
Side = Callable[[int], Call]

RING_BYTES, FEWEST_BATCHES, MOST_BATCHES = 64e6, 4, 64


def batches_of(nbytes: float) -> int:
    """How many batches of so many bytes a case has: when one comes again, a core's own caches are without it."""
    return int(min(MOST_BATCHES, max(FEWEST_BATCHES, RING_BYTES // max(nbytes, 1))))


def side(op: Callable[..., object], batches: Sequence[tuple[object, ...]]) -> Side:
    """A call of `op` with the arguments of the batch."""
    return lambda number: partial(op, *batches[number])


@dataclass(frozen=True, kw_only=True)
class Case:
    """`ours` and `theirs` give equal results for equal batches, or leave equal state behind."""

    operator: str
    shape: str
    peer: str
    batches: int  # batches 0 to batches - 1 take the same work
    ours: Side
    theirs: Side
    moved_bytes: float = 0  # read and written at least; 0: not stated
    flops: float = 0  # 0: not stated
    target: float = 1.0  # the peer's time over ours that is asked for; 0: nothing, the peer is a bound
    tolerance: float | None = 1e-5  # of the results, relative and absolute; None: the results cannot be compared
    verify: Callable[[], None] | None = None  # raises where the sides differ, instead of a comparison of the results
