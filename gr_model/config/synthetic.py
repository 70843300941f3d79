"""Settings of the data sets that follow a known rule, planted-sequences and planted-actions (data/synthetic.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gr_model.config.setting import setting

POSITIVE = ("users", "items", "length", "genres", "segments")


@dataclass(frozen=True, kw_only=True)
class SyntheticConfig:
    """Any size: what is in memory does not grow with the number of users."""

    users: int = setting(1000, "users that are made")
    items: int = setting(200, "items that are made")
    length: int = setting(40, "interactions of a user")
    shortest: int = setting(0, "lengths are uniform from this to `length`; 0: all are `length`")
    zipf: float = setting(
        1.0, "exponent: the r-th most popular item is drawn in proportion to r to the power of minus this"
    )
    seed: int = setting(0, "of the data")
    # Of planted-sequences:
    genres: int = setting(4, "a user likes one, item i is of genre i modulo genres (planted-sequences)")
    follow: float = setting(0.5, "probability that the next item is the successor of the last one (planted-sequences)")
    skip: float = setting(0.2, "probability that it is the successor of the one before that (planted-sequences)")
    # Of planted-actions:
    segments: int = setting(6, 'of users; known to the model as the feature "segment" (planted-actions)')


def faults(settings: SyntheticConfig) -> Iterator[str]:
    for name in POSITIVE:
        if not getattr(settings, name) > 0:
            yield f"synthetic.{name}: must be greater than 0, got {getattr(settings, name)}"
    if not 0 <= settings.shortest <= settings.length:
        yield f"synthetic.shortest: must be from 0 to synthetic.length={settings.length}, got {settings.shortest}"
    if not settings.zipf >= 0:
        yield f"synthetic.zipf: must not be negative, got {settings.zipf}"
    if settings.items >= 1 << 31 or settings.genres > min(settings.items, 1 << 15):
        yield "synthetic.items must be less than 2**31, synthetic.genres at most the items and 32768"
    if settings.follow < 0 or settings.skip < 0 or settings.follow + settings.skip > 1:
        yield "synthetic.follow, synthetic.skip: must not be negative, nor greater than 1 together"
