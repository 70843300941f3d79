"""The choices of one command: which target, platform, base, Python and engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user typed; an empty text stands for the default."""

    target: str = "npu"
    platform: str = ""
    base: str = ""
    python: str = ""
    engine: str = "auto"
    devel: bool = False  # the variant of the image that has build tools and tests
