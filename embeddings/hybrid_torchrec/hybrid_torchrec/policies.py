"""Which ids get a row (admission), and which rows go when room is needed (eviction).

An id that is not admitted reads the table's default row (slot 0), which is never updated. An admitted id starts with an
initialised row and an optimizer state of zero. An evicted row goes with its optimizer state, shows and clicks; whoever
wants to keep it reads it first (``select_victims`` and ``pop``). Should its id come again, it starts anew. Bias
corrections of Adam, AdamW and LAMB count the table's steps, not the row's, as in fbgemm.

A step, here, is a call of ``HashTable.assign(train=True)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from hybrid_torchrec.kinds import EVICTIONS, EvictionKind


@dataclass(frozen=True, kw_only=True)
class AdmissionPolicy:
    """Base of all admission policies; itself it admits every id."""

    sightings: int = 1
    probability: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.sightings, int) or self.sightings < 1:
            raise ValueError(f"sightings must be an integer of at least 1, got {self.sightings!r}")
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"probability must be in (0, 1], got {self.probability}")


@dataclass(frozen=True, kw_only=True)
class AdmitAll(AdmissionPolicy):
    """Every id, at its first sighting."""


@dataclass(frozen=True, kw_only=True)
class AdmitAfter(AdmissionPolicy):
    """Ids that were seen ``sightings`` times, each occurrence in a training batch being one.

    All occurrences in a batch count before it is decided, so the order within a batch does not matter. Counts are exact
    (about 20 bytes for every id that waits) or, with ``sketch=(width, depth)``, those of a count-min sketch of width *
    depth 16-bit counters with conservative update: never too low, so nobody waits longer, but of N sightings without
    admission about a share exp(-depth) of the ids may be counted up to e * N / width too high and be admitted early.
    """

    sightings: int = 2
    sketch: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sketch is None:
            return
        if len(self.sketch) != 2 or not all(isinstance(size, int) for size in self.sketch):
            raise ValueError(f"sketch must be (width, depth), two integers; got {self.sketch!r}")
        if min(self.sketch) < 1 or self.sightings > 65535:
            raise ValueError(f"a sketch needs width, depth >= 1 and counts to 65535 at most, got {self}")


@dataclass(frozen=True, kw_only=True)
class AdmitWithProbability(AdmissionPolicy):
    """Each step in which the id occurs admits it with ``probability``, by a hash of (seed, step, id)."""

    probability: float = 0.1


class Ranking(NamedTuple):
    """The numbers of a policy that the index orders rows by; each policy uses those of its own."""

    show_weight: float = 1.0
    click_weight: float = 0.0
    decay: float = 1.0  # factor of shows and clicks for each step
    time_to_live: int = 0  # steps


@dataclass(frozen=True, kw_only=True)
class EvictionPolicy:
    """Base of all eviction policies.

    When ids need rows and the table is at ``max_rows``, the lowest rows of the policy's order go: as many as are
    needed, or ``share`` of max_rows if that is more, since every choice looks at all rows. Rows of the ids in the batch
    are never chosen. Ties: the row that was seen least recently, then the smallest id.
    """

    kind: ClassVar[EvictionKind | None] = None  # the row of kinds.py by which the index orders rows

    share: float = 1 / 64

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"share must be in [0, 1), got {self.share}")

    @property
    def counts_occurrences(self) -> bool:
        """Whether the order depends on how often an id occurs in a batch; a policy of the user's own may."""
        return self.kind is None or self.kind.counts_occurrences

    @property
    def expires(self) -> bool:
        """Whether rows go by their age, also where there is room, and others never."""
        return self.kind is not None and self.kind.expires

    @property
    def every(self) -> int | None:
        """Steps between two looks at the age of rows; None: they do not expire."""
        return None

    @property
    def ranking(self) -> Ranking:
        return Ranking()


@dataclass(frozen=True, kw_only=True)
class LFU(EvictionPolicy):
    """The fewest sightings go first."""

    kind = EVICTIONS["LFU"]


@dataclass(frozen=True, kw_only=True)
class LRU(EvictionPolicy):
    """The least recently seen go first."""

    kind = EVICTIONS["LRU"]


@dataclass(frozen=True, kw_only=True)
class TTL(EvictionPolicy):
    """Rows that were not seen in the last ``steps`` steps go, every ``interval`` steps and when room is needed.

    Younger ones never go: a table full of them raises TableFull.
    """

    kind = EVICTIONS["TTL"]

    steps: int
    interval: int | None = None  # default: steps / 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in (self.steps, 1 if self.interval is None else self.interval):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"TTL: steps and interval must be integers of at least 1, got {self}")

    @property
    def every(self) -> int:
        return self.interval if self.interval is not None else max(1, self.steps // 4)

    @property
    def ranking(self) -> Ranking:
        return Ranking(time_to_live=self.steps)


@dataclass(frozen=True, kw_only=True)
class Score(EvictionPolicy):
    """The lowest ``show_weight * shows + click_weight * clicks`` go first.

    Both counts lose the factor ``decay`` with every step. Clicks come by ``HashTable.add_clicks``.
    """

    kind = EVICTIONS["Score"]

    show_weight: float = 1.0
    click_weight: float = 1.0
    decay: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.decay <= 1.0:
            raise ValueError(f"decay must be in (0, 1], got {self.decay}")

    @property
    def ranking(self) -> Ranking:
        return Ranking(show_weight=self.show_weight, click_weight=self.click_weight, decay=self.decay)


@dataclass(frozen=True, kw_only=True)
class RowStats:
    """What a custom score may look at, of R rows on the CPU."""

    ids: torch.Tensor  # (R,) int64
    shows: torch.Tensor  # (R,) float32, sightings
    clicks: torch.Tensor  # (R,) float32
    last_step: torch.Tensor  # (R,) int64, of the last sighting
    step: int  # now


@dataclass(frozen=True, kw_only=True)
class CustomScore(EvictionPolicy):
    """The lowest ``score(stats)`` go first; score returns (R,) floating point."""

    score: Callable[[RowStats], torch.Tensor]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.score):
            raise TypeError(f"CustomScore: score must be a function of RowStats, got {self.score!r}")


def rank_of_policy(policy: object) -> int | None:
    """The index's number of a policy, which may be derived from a known one; None for a CustomScore, which ranks rows
    itself. Raises TypeError for anything else."""
    if isinstance(policy, CustomScore):
        return None
    if isinstance(policy, EvictionPolicy) and policy.kind is not None:
        return policy.kind.number
    raise TypeError(f"eviction must be None or one of {', '.join(EVICTIONS)}, CustomScore")
