"""Metrics of a cached table."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Protocol


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


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Counters and what is in the cache now."""

    table: str
    counters: Counters
    device_rows: int
    cache_rows: int
    waiting_rows: int  # for write-back

    @property
    def hit_rate(self) -> float:
        return self.counters.hits / self.counters.lookups if self.counters.lookups else 0.0

    @property
    def occupancy(self) -> float:
        return self.device_rows / self.cache_rows

    def values(self) -> dict[str, float]:
        """By name; counters as <name>, the rest as gauges."""
        gauges = {"hit_rate": self.hit_rate, "occupancy": self.occupancy, "device_rows": float(self.device_rows),
                  "waiting_rows": float(self.waiting_rows)}  # fmt: skip
        return {name: float(value) for name, value in asdict(self.counters).items()} | gauges


class Metrics:
    """Counts; safe from several threads."""

    def __init__(self) -> None:
        self._counters = Counters()
        self._lock = threading.Lock()

    def add(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self._counters, name, getattr(self._counters, name) + amount)

    def counters(self) -> Counters:
        with self._lock:
            return Counters(**asdict(self._counters))


class ScalarWriter(Protocol):
    """torch.utils.tensorboard.SummaryWriter."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object: ...


def write_tensorboard(writer: ScalarWriter, snapshots: Iterable[Snapshot], step: int) -> None:
    """A scalar embcache/<table>/<metric> for each."""
    for snapshot in snapshots:
        for name, value in snapshot.values().items():
            writer.add_scalar(f"embcache/{snapshot.table}/{name}", value, step)


_HELP = {
    "batches": "Batches that were looked up",
    "lookups": "Distinct ids of batches",
    "hits": "Distinct ids that were in the cache",
    "fetched_rows": "Rows read from host memory or disk",
    "evicted_rows": "Rows that left the cache",
    "bytes_to_device": "Bytes of rows that were written to the cache",
    "bytes_from_device": "Bytes of rows that left the cache",
    "late_batches": "Batches whose rows were not ready in time",
    "shortened": "Batches that had to wait for room in the cache",
    "prefetch_wait_seconds": "Time that training waited for rows",
    "hit_rate": "Share of distinct ids that were in the cache",
    "occupancy": "Share of the cache that is in use",
    "device_rows": "Rows in the cache",
    "waiting_rows": "Rows that wait for write-back",
}
_GAUGES = ("hit_rate", "occupancy", "device_rows", "waiting_rows")


def prometheus_text(snapshots: Iterable[Snapshot]) -> str:
    """Text exposition format 0.0.4, to be served as text/plain; version=0.0.4."""
    values = {snapshot.table: snapshot.values() for snapshot in snapshots}
    lines: list[str] = []
    for name, text in _HELP.items():
        kind = "gauge" if name in _GAUGES else "counter"
        full = f"embcache_{name}" if kind == "gauge" else f"embcache_{name}_total"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        for table, by_name in values.items():
            label = table.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            lines.append(f'{full}{{table="{label}"}} {by_name[name]!r}')
    return "\n".join(lines) + "\n"
