"""Lines that tell how far a run is."""

from __future__ import annotations

import time

from .tally import Row

SECONDS = 10.0  # between two lines


class Progress:
    def __init__(self, cases: int, done: int, rows: list[Row]) -> None:
        self.cases, self.first, self.done, self.rows = cases, done, done, rows
        self.start = self.last = time.monotonic()
        if done:
            self.line(f"{done} of {cases} cases are there from an earlier run")

    def ended(self, row: Row) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.last < SECONDS and self.done < self.cases:
            return
        self.last = now
        samples = sum(r.samples for r in self.rows)
        failing = samples - sum(r.passed for r in self.rows)
        left = (now - self.start) / max(1, self.done - self.first) * (self.cases - self.done)
        self.line(
            f"{self.done}/{self.cases} cases, {samples} samples, {failing} failing, "
            f"about {left / 60:.0f} min left (at {row.op} {row.dtype})"
        )

    def line(self, text: str) -> None:
        print(f"conformance: {text}", flush=True)
