"""Counters of one cached table."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass


@dataclass
class Counters:
    """Since the table was made. Lookups and hits count the distinct ids of batches."""

    batches: int = 0
    lookups: int = 0
    hits: int = 0  # on the device, or on their way there, when the look-ahead reached the batch
    fetched_rows: int = 0
    evicted_rows: int = 0
    bytes_to_device: int = 0
    bytes_from_device: int = 0
    late_batches: int = 0  # whose rows were not ready when the batch was to train
    shortened: int = 0  # batches that had to wait for room in the cache
    prefetch_wait_seconds: float = 0.0


class SharedCounters:
    """Adds them up; safe from several threads."""

    def __init__(self) -> None:
        self._counters = Counters()
        self._lock = threading.Lock()

    def add(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self._counters, name, getattr(self._counters, name) + amount)

    def counters(self) -> Counters:
        """As they are now."""
        with self._lock:
            return Counters(**asdict(self._counters))
