"""The figures of a run while it runs, for Prometheus: http://HOST:PORT/metrics of the first process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from gr_model.common import in_image
from gr_model.common.errors import GrModelError

GAUGES = {
    "loss": "loss of the last step",
    "lr": "learning rate",
    "mfu": "model FLOP/s of the last step over the peak of all devices",
    "gradient_norm": "norm of the gradients before clipping",
}


class ExporterError(GrModelError, RuntimeError):
    """Nothing is served: a package is missing, or the port is taken."""


def address(text: str) -> tuple[str, int]:
    """`PORT` (for this host alone) or `ADDRESS:PORT`; 0.0.0.0 is all. Raises ValueError for anything else."""
    found = re.fullmatch(r"(?:(?P<host>[^:\s]+|\[[0-9a-fA-F:]+\]):)?(?P<port>\d{1,5})", text)
    if found is None or not 0 <= int(found["port"]) < 65536:
        raise ValueError(f"'{text}' is neither PORT nor ADDRESS:PORT")
    return (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])


class Figures:
    """Gauges and counters by name and labels, as prometheus_client collects them; safe to use from any thread."""

    def __init__(self, prefix: str, run: str) -> None:
        self.prefix, self.run = prefix, run
        self._lock = threading.Lock()
        self._help: dict[tuple[str, str], str] = {}  # by (kind, name)
        self._values: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], float]] = {}

    def set(self, name: str, value: float, *, help: str, **labels: str) -> None:
        with self._lock:
            self._of("gauge", name, help)[tuple(labels.items())] = value

    def add(self, name: str, amount: float, *, help: str, **labels: str) -> None:
        with self._lock:
            values, key = self._of("counter", name, help), tuple(labels.items())
            values[key] = values.get(key, 0.0) + amount

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        with self._lock:
            found = [(*key, dict(values)) for key, values in self._values.items()]
        for kind, name, values in found:
            names = ["run", *(label for label, _ in next(iter(values)))]
            family = families[kind](f"{self.prefix}_{name}", self._help[kind, name], labels=names)
            for labels, value in values.items():
                family.add_metric([self.run, *(text for _, text in labels)], value)
            yield family

    def _of(self, kind: str, name: str, help: str) -> dict[tuple[tuple[str, str], ...], float]:
        self._help.setdefault((kind, name), help)
        return self._values.setdefault((kind, name), {})


class Exporter:
    """Without `where` nothing is served. `watch_tables` gets the registry of figures of tables and returns what to call
    when they are to be read again: at logged steps, since a device's table has to be asked."""

    def __init__(
        self, where: tuple[str, int] | None, run: str, watch_tables: Callable[[Any], Callable[[], None]] | None = None
    ) -> None:
        self.where, self.port = where, 0
        self._stop: Callable[[], None] = lambda: None
        if where is None:
            return
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            how = in_image.pip_install("prometheus-client", "gr_model.train")
            raise ExporterError(f"--prometheus needs a package ({error})\n  next: {how}") from None
        self.registry = CollectorRegistry()
        self._training = Figures("gr_model", run)
        self.registry.register(self._training)
        self._read_tables: Callable[[], None] = lambda: None
        if watch_tables:  # growing tables, whose package is there then
            from hybrid_torchrec.metrics import Metrics

            tables = Metrics(run=run)
            self._read_tables = watch_tables(tables)
            self.registry.register(tables)

    def __enter__(self) -> Exporter:
        if self.where is not None:
            from prometheus_client import start_http_server

            host, port = self.where
            try:
                server, thread = start_http_server(port, addr=host, registry=self.registry)
            except OSError as error:
                raise ExporterError(
                    f"--prometheus {host}:{port}: {error.strerror}\n  next: the same command with another port"
                ) from None
            self.port = server.server_port

            def stop() -> None:
                server.shutdown()
                server.server_close()
                thread.join()

            self._stop = stop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def step(self, step: int, fields: dict[str, Any]) -> None:
        if self.where is None:
            return
        figures = self._training
        figures.set("step", step, help="the last step that ended")
        figures.add("tokens", fields["tokens"], help="tokens trained on since this process began")
        figures.add("step_seconds", fields["seconds"], help="time of steps since this process began")
        rate = fields["tokens"] / fields["seconds"]
        figures.set("tokens_per_second", rate, help="tokens of the last step over its time")
        for name, help in GAUGES.items():
            if name in fields:
                figures.set(name, fields[name], help=help)
        for phase, seconds in fields["phases"].items():
            figures.add("phase_seconds", seconds, help="time of steps, by phase", phase=phase)
        for place, size in fields.get("memory", {}).items():
            figures.set("peak_memory_bytes", size, help="the most in use so far", place=place)
        if "memory" in fields:  # a logged step
            self._read_tables()

    def metrics(self, step: int, metrics: dict[str, float]) -> None:
        if self.where is not None:
            self._training.set("evaluated_step", step, help="step of the last evaluation")
            for name, value in metrics.items():
                self._training.set("evaluation", value, help="figures of the last evaluation", metric=name)
