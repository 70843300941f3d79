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

    def words(self) -> str:
        """What differs from the default, as it is typed: each option after a space."""
        named = ("target", "platform", "base", "python", "engine")
        given = [(name, getattr(self, name)) for name in named if getattr(self, name) != getattr(Choices, name)]
        return "".join(f" --{name} {value}" for name, value in given) + (" --devel" if self.devel else "")
