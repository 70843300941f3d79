"""What is compared: one call of ours, the same call of a named peer."""

from collections.abc import Callable
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Prepared:
    """Gives the call to time; what comes before it, such as the forward pass of a backward pass, is not timed."""

    prepare: Callable[[], Call]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`ours` and `theirs` give equal results, or leave equal state behind."""

    operator: str
    shape: str
    peer: str
    ours: Call | Prepared
    theirs: Call | Prepared
    moved_bytes: float = 0  # read and written at least; 0: not stated
    flops: float = 0  # 0: not stated
    target: float = 1.0  # the peer's time over ours that is asked for; 0: nothing, the peer is a bound
    tolerance: float | None = 1e-5  # of the results, relative and absolute; None: the results cannot be compared
    verify: Callable[[], None] | None = None  # raises where the sides differ, instead of a comparison of the results
