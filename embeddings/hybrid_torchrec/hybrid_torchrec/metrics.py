"""Metrics: the figures of one process, for TensorBoard and Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from torch.utils.tensorboard import SummaryWriter

Kind = Literal["counter", "gauge", "ratio"]
Labels = tuple[tuple[str, str], ...]


@dataclass
class _Figure:
    kind: Kind
    help: str
    values: dict[Labels, float] = field(default_factory=dict)
    parts: tuple[str, str] | None = None  # of a ratio: the counters above and below the line


class Metrics:
    """Counters, gauges and ratios by name and labels; safe to use from any thread.

    A name keeps its kind: using it as another raises ValueError. `labels` given here (rank, host) are on every figure.
    Names are plain (`hits`, `prefetch_wait_seconds`); units are their last word; reports put `prefix` in front.

        metrics = Metrics(rank="0")
        metrics.add("hits", 900, table="user")
        metrics.add("lookups", 1000, table="user")
        metrics.ratio("hit_rate", "hits", "lookups")
        metrics.value("hit_rate", table="user")       # 0.9
    """

    def __init__(self, prefix: str = "hybrid_torchrec", **labels: str) -> None:
        self.prefix = prefix
        self.labels = labels
        self._figures: dict[str, _Figure] = {}
        self._lock = threading.RLock()
        self._reported: dict[tuple[str, Labels], tuple[float, float]] = {}

    def add(self, name: str, amount: float = 1.0, *, help: str = "", **labels: str) -> None:
        """Adds to a counter, which only grows: a negative `amount` raises ValueError."""
        if amount < 0:
            raise ValueError(f"counter {name}: cannot add {amount}; use set() for a figure that falls")
        with self._lock:
            values = self._figure(name, "counter", help).values
            key = _key(labels)
            values[key] = values.get(key, 0.0) + amount

    def set(self, name: str, value: float, *, help: str = "", **labels: str) -> None:
        """Sets a gauge."""
        with self._lock:
            self._figure(name, "gauge", help).values[_key(labels)] = float(value)

    def ratio(self, name: str, part: str, whole: str, *, help: str = "") -> None:
        """Declares `name` as counter `part` / counter `whole`, for all labels that `whole` has.

        TensorBoard gets the ratio of the steps since its last report, Prometheus the ratio since the start.
        """
        with self._lock:
            self._figure(name, "ratio", help).parts = (part, whole)

    @contextmanager
    def timed(self, name: str, *, help: str = "", **labels: str) -> Iterator[None]:
        """Adds the seconds spent inside to the counter `name`, and 1 to `name` + `_count`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start, help=help, **labels)
            self.add(f"{name}_count", 1, **labels)

    def value(self, name: str, **labels: str) -> float:
        """The present value; 0 for a counter that was never added to, KeyError for a name never used."""
        with self._lock:
            if name not in self._figures:
                raise KeyError(f"no metric {name!r}; there are: {', '.join(sorted(self._figures)) or 'none'}")
            figure = self._figures[name]
            if figure.parts is not None:
                part, whole = (self._total(counter, _key(labels)) for counter in figure.parts)
                return part / whole if whole else 0.0
            return figure.values.get(_key(labels), 0.0)

    def snapshot(self) -> dict[str, float]:
        """{`name{label=value,...}`: value} of everything, ratios included."""
        return {_text(name, labels): value for name, _, labels, value in self._samples()}

    def write_tensorboard(self, writer: SummaryWriter, step: int) -> None:
        """Writes every figure at `step`; ratios are those of the time since the last call."""
        with self._lock:
            for name, figure, labels, value in self._samples():
                if figure.parts is not None:
                    value = self._since_last(name, figure.parts, labels)
                tag = "/".join([self.prefix, *(text for _, text in labels), name])
                writer.add_scalar(tag, value, step)

    def collect(self) -> Iterable[Metric]:
        """Prometheus' collector protocol: `prometheus_client.REGISTRY.register(metrics)` is all it takes."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Metric] = {}
        for name, figure, labels, value in self._samples():
            if name not in families:
                make = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
                families[name] = make(f"{self.prefix}_{name}", figure.help or name.replace("_", " "))
            suffix = "_total" if figure.kind == "counter" else ""
            families[name].add_sample(f"{self.prefix}_{name}{suffix}", {**self.labels, **dict(labels)}, value)
        return families.values()

    def registry(self) -> CollectorRegistry:
        """A Prometheus registry of these metrics alone: for generate_latest() or start_http_server()."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def _figure(self, name: str, kind: Kind, help: str) -> _Figure:
        figure = self._figures.setdefault(name, _Figure(kind, help))
        if figure.kind != kind:
            raise ValueError(f"metric {name} is a {figure.kind}, not a {kind}; give one of them another name")
        figure.help = figure.help or help
        return figure

    def _total(self, counter: str, labels: Labels) -> float:
        return self._figures[counter].values.get(labels, 0.0) if counter in self._figures else 0.0

    def _since_last(self, name: str, parts: tuple[str, str], labels: Labels) -> float:
        part, whole = (self._total(counter, labels) for counter in parts)
        part_before, whole_before = self._reported.get((name, labels), (0.0, 0.0))
        self._reported[name, labels] = (part, whole)
        return (part - part_before) / (whole - whole_before) if whole > whole_before else 0.0

    def _samples(self) -> list[tuple[str, _Figure, Labels, float]]:
        with self._lock:
            samples = []
            for name, figure in sorted(self._figures.items()):
                source = self._figures.get(figure.parts[1], figure) if figure.parts is not None else figure
                samples += [
                    (name, figure, labels, self.value(name, **dict(labels))) for labels in sorted(source.values)
                ]
            return samples


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _text(name: str, labels: Labels) -> str:
    return f"{name}{{{','.join(f'{key}={value}' for key, value in labels)}}}" if labels else name
