"""Counters of tables in device memory, and what the host knows of them without waiting for the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hybrid_torchrec.backends.cuda.layout import COUNTER_WORDS, constants

LIVE, NEXT, FREED, KEYS = constants("LIVE", "NEXT", "FREED", "KEYS")


@dataclass
class CounterBounds:
    """Of a table: not more rows, slots and keys are in use, and not fewer slots are free."""

    live: int = 0
    next: int = 1
    freed: int = 0
    keys: int = 0
    since: int = 0  # rows that may have come since the counters were last asked for
    used: int = 1  # slots in use then, with slot 0
    keys_since: int = 0

    def add_rows(self, new: int) -> None:
        self.live += new
        self.next = self.slots_with(new)
        self.freed = max(0, self.freed - new)
        self.since += new

    def add_keys(self, new: int) -> None:
        self.keys += new
        self.keys_since += new

    def slots_with(self, new: int) -> int:
        """Slots in use with `new` more rows."""
        return self.next + max(0, new - self.freed)

    def set(self, counters: list[int]) -> None:
        """As of when they were asked for."""
        since, keys_since = self.since, self.keys_since
        self.live, self.next, self.freed, self.keys = (counters[i] for i in (LIVE, NEXT, FREED, KEYS))
        self.used = self.next
        self.add_rows(since)
        self.add_keys(keys_since)
        self.since, self.keys_since = since, keys_since


class DeviceCounters:
    """counters (T, COUNTER_WORDS) int64 of T tables on the device, and their bounds.

    `request` copies the counters to the host, and `poll` takes what has come: bounds become tight some batches later.
    """

    def __init__(self, tables: int, device: torch.device) -> None:
        self.counters = torch.zeros((tables, COUNTER_WORDS), dtype=torch.int64, device=device)
        self.counters[:, NEXT] = 1
        self.bounds = [CounterBounds() for _ in range(tables)]
        cuda = device.type == "cuda"
        self._seen = torch.zeros((tables, COUNTER_WORDS), dtype=torch.int64, pin_memory=cuda)
        self._event = torch.cuda.Event() if cuda else None
        self._asked = False

    def request(self) -> None:
        if not self._asked:
            self._seen.copy_(self.counters, non_blocking=True)
            if self._event is not None:
                self._event.record()
            self._asked = True
            self._forget()

    def poll(self) -> None:
        if self._asked and (self._event is None or self._event.query()):
            self._take(self._seen.tolist())

    def settle(self) -> None:
        """Bounds are as of the last request, or, where nobody asked, exact. Waits for no batch after the request."""
        if not self._asked:
            self.synchronize()
            return
        if self._event is not None:
            self._event.synchronize()
        self._take(self._seen.tolist())

    def synchronize(self) -> None:
        """Bounds are exact; waits for all that the device was given."""
        self._forget()
        self._take(self.counters.tolist())

    def _forget(self) -> None:
        for bounds in self.bounds:
            bounds.since = bounds.keys_since = 0

    def _take(self, counters: list[list[int]]) -> None:
        self._asked = False
        for bounds, row in zip(self.bounds, counters, strict=True):
            bounds.set(row)
