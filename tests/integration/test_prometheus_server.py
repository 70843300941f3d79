"""A training's figures as a real Prometheus has them: the target is up, and each query of the dashboard gives values.

Those of devices are served by stand-ins for DCGM-Exporter and NPU-Exporter, in the form of their makers' documents.
Slow: `python -m pytest -m slow tests/integration/test_prometheus_server.py`, with `prometheus` of the distribution.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.fetch import fetch_data
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.image, pytest.mark.slow]
CONFIG = """
scrape_configs:
  - job_name: gr_model
    scrape_interval: 1s
    static_configs:
      - targets: ["127.0.0.1:{port}"]
  - job_name: devices
    scrape_interval: 1s
    static_configs:
      - targets: ["127.0.0.1:{gpus}", "127.0.0.1:{npus}"]
"""
GPU = 'gpu="0",UUID="GPU-5fd4f087",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="host-a"'
NPU = 'id="0",model_name="910B3",vdie_id="185011D4-21104518",pcie_bus_info="0000:C1:00.0",namespace="",pod_name=""'
GPUS = f"""\
DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 97
DCGM_FI_DEV_FB_USED{{{GPU}}} 61234
DCGM_FI_DEV_POWER_USAGE{{{GPU}}} 642.1
DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 58
"""
NPUS = f"""\
npu_chip_info_utilization{{{NPU}}} 93
npu_chip_info_hbm_used_memory{{{NPU}}} 40321
npu_chip_info_power{{{NPU}}} 301.5
npu_chip_info_temperature{{{NPU}}} 51
"""
PATIENCE = 240.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def exporter(text: str) -> Iterator[int]:
    """The port of a server whose every page is `text`."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


def ask(port: int, query: str) -> list[dict[str, Any]]:
    text = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{text}", timeout=10) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.fixture
def gpus() -> Iterator[int]:
    with exporter(GPUS) as port:
        yield port


@pytest.fixture
def npus() -> Iterator[int]:
    with exporter(NPUS) as port:
        yield port


def test_every_query_of_the_dashboard_gives_values(tmp_path: Path, gpus: int, npus: int) -> None:
    if shutil.which("prometheus") is None:
        pytest.fail("this test needs Prometheus; type: apt-get install prometheus")
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    assert isinstance(s.engine, DockerEngine)
    fetch_data(ROOT, "ml-100k", s.paths.data)
    served, port = free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=served, gpus=gpus, npus=npus))
    name = f"grstack-test-prometheus-{os.getpid()}"
    train = [
        "docker",
        "run",
        "--rm",
        "--name",
        name,
        "--network=host",
        "--shm-size=1g",
        f"--volume={s.paths.data}:/data",
    ]
    train += [
        s.engine.image_id(s.plan),
        "python",
        "-m",
        "gr_model.train",
        "--config",
        "smoke",
        "--prometheus",
        f"127.0.0.1:{served}",
    ]
    train += ["--out", "/tmp/run", "train.steps=1000000", "train.eval_every=20", "train.log_every=1"]
    train += ["embedding.kind=embcache", "embedding.cache_rows=1682"]
    watch = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/db"]
    watch += [f"--web.listen-address=127.0.0.1:{port}"]
    board = json.loads((ROOT / "docs/grafana-training.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    missing = set(asked)
    assert len(missing) == len(asked)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    trainer = subprocess.Popen(train, stdout=(tmp_path / "log").open("w"), stderr=subprocess.STDOUT)
    server = subprocess.Popen(watch, **quiet)
    try:
        end = time.monotonic() + PATIENCE
        while missing and time.monotonic() < end and trainer.poll() is None:
            time.sleep(2)
            try:
                missing = {query for query in missing if not ask(port, query)}
            except OSError:  # not up yet
                continue
        assert missing == set(), (tmp_path / "log").read_text()[-3000:]
        for query in asked:  # `or` between two names would leave out the second, whose labels are the same
            named = set(re.findall(r"\b(?:gr_model|hybrid_torchrec|DCGM|npu_chip)_\w+", query))
            answered = {row["metric"].get("__name__") for row in ask(port, query)} - {None}
            assert answered in (named, set()), query  # a quotient has no name
        (up,) = ask(port, 'up{job="gr_model"}')
        assert up["value"][1] == "1"
        (step,) = ask(port, "gr_model_step")
        assert float(step["value"][1]) >= 20 and step["metric"]["run"]
        assert 0.5 < sum(float(row["value"][1]) for row in ask(port, phases(board))) < 1.5
    finally:
        subprocess.run(["docker", "kill", name], check=False, **quiet)
        server.terminate()
        server.wait(30)
        trainer.wait(60)


def phases(board: dict[str, Any]) -> str:
    """The query of shares of a step's time, which are about 1 together."""
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return str(next(query for query in queries if "phase" in query))
