"""What long work says of itself while it goes on: at most a line every ten seconds."""

from __future__ import annotations

import time

from rich.console import Console

EVERY = 10.0  # seconds


class Ticker:
    """Called as often as there is something new. Says at once what begins."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what, self._said = console, what, time.monotonic()
        self._say(what)

    def __call__(self, done: int) -> None:
        """`done`: bytes."""
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            self._say(f"{self._what}: {done / 1e6:,.1f} MB so far")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
