"""--prometheus: what is served while a run trains, beside what its log says."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gr_model import train
from gr_model.report.prometheus import Exporter, ExporterError, address
from gr_model.run import log as runlog
from gr_model.tests import data_files
from gr_model.tests.launch import free_port
from gr_model.training import training_run

SMALL = ["train.batch=4", "model.dim=8", "model.qk_dim=4", "model.value_dim=4", "model.max_items=16", "data.workers=0"]
STEPS = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    data_files.ml_1m(root / "ml-1m", data_files.random_rows())
    return root


def read(port: int) -> dict[tuple[str, frozenset], float]:
    """Every sample by name and labels, as Prometheus' own parser reads them; `run` is left out."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, frozenset((key, value) for key, value in sample.labels.items() if key != "run")): sample.value
        for family in families
        for sample in family.samples
    }


def documented() -> set[str]:
    """Names of figures on the page and in the dashboard's queries."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    board = json.loads((docs / "grafana-training.json").read_text(encoding="utf-8"))
    texts = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    texts.append((docs / "monitoring.md").read_text(encoding="utf-8"))
    return set(re.findall(r"\b(?:gr_model|hybrid_torchrec)_\w+", "\n".join(texts)))


@pytest.mark.parametrize("kind", ["table", pytest.param("hash", marks=pytest.mark.slow), "embcache"])
def test_what_is_served_is_what_is_logged(folder, tmp_path, monkeypatch, kind) -> None:
    """Read at the last save, when every step has ended and the run has not."""
    port, seen = free_port(), []
    save = training_run.checkpoint.save_run
    monkeypatch.setattr(training_run.checkpoint, "save_run", lambda *a, **k: (seen.append(read(port)), save(*a, **k)))
    own = {
        "table": [],
        "hash": ["embedding.kind=hash"],
        "embcache": ["embedding.kind=embcache", "embedding.cache_rows=512"],
    }
    options = ["--config", "ml-1m", "--data-dir", str(folder), "--out", str(tmp_path / "run")]
    settings = [*SMALL, *own[kind], f"train.steps={STEPS}", f"train.eval_every={STEPS}", "train.log_every=1"]
    assert train.main([*options, "--prometheus", f"127.0.0.1:{port}", *settings]) == 0
    events = runlog.read(tmp_path / "run/log.jsonl")
    steps = [event for event in events if event["event"] == "step"]
    (evaluation,) = [event for event in events if event["event"] == "evaluation"]
    (found,) = seen
    none = frozenset()
    assert found["gr_model_step", none] == STEPS == len(steps)
    assert found["gr_model_loss", none] == steps[-1]["loss"] and found["gr_model_lr", none] == steps[-1]["lr"]
    assert found["gr_model_mfu", none] == steps[-1]["mfu"]
    assert found["gr_model_tokens_total", none] == sum(event["tokens"] for event in steps)
    assert found["gr_model_step_seconds_total", none] == pytest.approx(sum(event["seconds"] for event in steps))
    for phase in steps[-1]["phases"]:
        spent = sum(event["phases"].get(phase, 0.0) for event in steps)
        assert found["gr_model_phase_seconds_total", frozenset({("phase", phase)})] == pytest.approx(spent)
    assert found["gr_model_peak_memory_bytes", frozenset({("place", "host")})] == steps[-1]["memory"]["host"]
    for name, value in evaluation["metrics"].items():
        assert found["gr_model_evaluation", frozenset({("metric", name)})] == value
    tables = {name: value for (name, _), value in found.items() if name.startswith("hybrid_torchrec_")}
    assert bool(tables) is (kind != "table")
    if tables:
        assert 0 < tables["hybrid_torchrec_hits_total"] <= tables["hybrid_torchrec_lookups_total"]
        assert tables["hybrid_torchrec_rows"] > 0 and 0 < tables["hybrid_torchrec_occupancy"] <= 1
    assert ("hybrid_torchrec_cache_hit_rate" in tables) is (kind == "embcache")
    if kind == "embcache":  # which has every figure
        names = {name for name, _ in found}
        assert documented() <= names, "docs/monitoring.md, docs/grafana-training.json"
    with pytest.raises(OSError):  # nothing is served after the run
        read(port)


def test_a_taken_port_is_said_before_the_first_step(folder, tmp_path, capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ["--config", "ml-1m", "--data-dir", str(folder), "--out", str(tmp_path / "run")]
        assert train.main([*options, "--prometheus", f"127.0.0.1:{port}", *SMALL, "train.steps=1"]) == 1
    assert f"--prometheus 127.0.0.1:{port}: Address already in use\n  next: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_where_it_is_served(text, found) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "x", "65536", "a:b", ":80", "::1:80"])
def test_what_is_no_address(text, capsys) -> None:
    with pytest.raises(ValueError, match="neither PORT nor ADDRESS:PORT"):
        address(text)
    assert train.main(["--config", "smoke", "--prometheus", text]) == 1
    assert "--prometheus" in capsys.readouterr().err


def test_copied_tables_need_no_package_of_tables(tmp_path) -> None:
    """hybrid_torchrec is for the figures of tables that grow."""
    program = (
        "import sys; sys.modules['hybrid_torchrec'] = None\n"
        "from gr_model.report.prometheus import Exporter\n"
        "from prometheus_client import generate_latest\n"
        "exporter = Exporter(('127.0.0.1', 0), 'r')\n"
        "exporter.metrics(3, {'auc': 0.5})\n"
        "sys.stdout.write(generate_latest(exporter.registry).decode())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (sample,) = [
        sample
        for family in text_string_to_metric_families(ran.stdout)
        for sample in family.samples
        if sample.name == "gr_model_evaluation"
    ]
    assert (sample.labels, sample.value) == ({"run": "r", "metric": "auc"}, 0.5)


def test_without_the_option_nothing_is_made() -> None:
    with Exporter(None, "run") as exporter:
        exporter.step(1, {})
        exporter.metrics(1, {})
    assert exporter.port == 0
    assert issubclass(ExporterError, RuntimeError)
