"""SIGTERM and Ctrl-C end a run after the step that is under way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Which signal asked the run to stop; 0 for none. A second Ctrl-C does not wait for the step."""

    def __init__(self) -> None:
        self.signal = 0

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal else 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watched(ask: Callable[[], None]) -> Iterator[Stop]:
    """Calls `ask` when a signal came; the handlers of before are put back."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.handle(number, frame)
        ask()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
