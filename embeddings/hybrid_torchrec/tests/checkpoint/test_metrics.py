"""Metrics against Prometheus' own parser and TensorBoard's own reader."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hybrid_torchrec.metrics import Metrics
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter


def filled() -> Metrics:
    metrics = Metrics(rank="3")
    metrics.ratio("hit_rate", "hits", "lookups")
    for table, hits in (("user", 90), ("item", 10)):
        metrics.add("hits", hits, table=table)
        metrics.add("lookups", 100, table=table)
    metrics.set("occupancy", 0.25, table="user")
    return metrics


def test_values_ratios_and_labels_are_apart():
    metrics = filled()
    metrics.add("hits", 5, table="user")
    assert metrics.value("hits", table="user") == 95
    assert metrics.value("hit_rate", table="item") == 0.1
    assert metrics.value("hits", table="unseen") == 0
    assert metrics.snapshot()["occupancy{table=user}"] == 0.25
    with pytest.raises(KeyError, match="no metric 'hist'; there are: hit_rate, hits"):
        metrics.value("hist")


def test_a_name_keeps_its_kind():
    metrics = filled()
    with pytest.raises(ValueError, match="hits is a counter, not a gauge"):
        metrics.set("hits", 1)
    with pytest.raises(ValueError, match="cannot add -1"):
        metrics.add("hits", -1)


def test_prometheus_reads_what_is_served():
    families = {f.name: f for f in text_string_to_metric_families(generate_latest(filled().registry()).decode())}
    assert families["hybrid_torchrec_hits"].type == "counter"
    samples = {s.labels["table"]: s for s in families["hybrid_torchrec_hits"].samples}
    assert samples["user"].value == 90 and samples["user"].labels["rank"] == "3"
    assert families["hybrid_torchrec_hit_rate"].type == "gauge"
    assert {s.labels["table"]: s.value for s in families["hybrid_torchrec_hit_rate"].samples} == {
        "user": 0.9,
        "item": 0.1,
    }


def test_tensorboard_gets_the_ratio_of_the_interval(tmp_path: Path):
    metrics = filled()
    with SummaryWriter(str(tmp_path)) as writer:
        metrics.write_tensorboard(writer, 1)
        metrics.add("hits", 0, table="user")
        metrics.add("lookups", 100, table="user")
        metrics.write_tensorboard(writer, 2)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, round(e.value, 6)) for e in events.Scalars("hybrid_torchrec/user/hit_rate")] == [
        (1, 0.9),
        (2, 0.0),
    ]
    assert [e.value for e in events.Scalars("hybrid_torchrec/user/lookups")] == [100, 200]


def test_threads_lose_nothing():
    metrics = Metrics()

    def work() -> None:
        for _ in range(2000):
            metrics.add("n", 1)
            with metrics.timed("wait_seconds"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.value("n") == 8000 and metrics.value("wait_seconds_count") == 8000
    assert metrics.value("wait_seconds") > 0
