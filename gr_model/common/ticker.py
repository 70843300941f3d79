"""What long work says of itself while it goes on: at most a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

EVERY = 10.0  # seconds
Say: TypeAlias = Callable[[str], None]


def nothing(text: str) -> None:
    pass


class Ticker:
    """Called as often as there is something new."""

    def __init__(self, say: Say) -> None:
        self._say, self._said = say, time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            self._say(text)
