"""gr_model on two hosts, over gloo and emulated HCCL: the losses of one process, and a checkpoint resumed on one."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.two_hosts import Hosts, two_hosts

STEPS = 24
CONFIG = [
    "--config=smoke",
    "--out=/out/run",
    "--progress=lines",
    "dataset=planted-sequences",
    "synthetic.users=400",
    "synthetic.items=300",
    "embedding.kind=sharded",
    "embedding.sharding=row_wise",
    f"train.steps={STEPS}",
    "train.eval_every=0",
    "train.log_every=1",
    "train.checkpoint_every=4",
    "train.deterministic=true",
]
TRAIN = ["-m", "gr_model.train"]
ONE = ["python", "-m", "torch.distributed.run", "--nproc-per-node=1"]
pytestmark = pytest.mark.image


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with two_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture(scope="module")
def alone(hosts: Hosts) -> dict[int, float]:
    """The losses of one process on a CPU."""
    settings = [setting.replace("/out/run", "/out/alone") for setting in CONFIG]
    hosts.call(0, *ONE, *TRAIN, *settings, "--device=cpu")
    return losses(hosts.folder / "alone")


def losses(run: Path) -> dict[int, float]:
    log = run / "log.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {record["step"]: record["loss"] for record in records if record.get("event") == "step"}


@pytest.mark.parametrize(
    ("device", "network", "tolerance"),
    [pytest.param("cpu", "gloo", 1e-5, marks=pytest.mark.slow), ("npu", "hccl", 1e-4)],
)
def test_two_hosts_train_and_one_goes_on(
    hosts: Hosts, alone: dict[int, float], device: str, network: str, tolerance: float
) -> None:
    run = hosts.folder / device
    settings = [setting.replace("/out/run", f"/out/{device}") for setting in CONFIG]
    processes = hosts.torchrun(1, *TRAIN, *settings, f"--device={device}")
    end = time.monotonic() + 180
    while not (run / "checkpoints/step-00000008").exists():
        assert time.monotonic() < end and all(process.poll() is None for process in processes), texts(processes)
        time.sleep(0.1)
    hosts.kill("gr_model.train")  # both hosts at once, as a power cut does
    outputs = texts(processes)
    assert f"2 processes over {network}" in outputs[0], outputs
    before = losses(run)
    assert 8 <= len(before) < STEPS, "it was killed too late to show anything"

    text = hosts.call(1, *ONE, *TRAIN, f"--resume=/out/{device}", f"--device={device}", "--progress=lines")
    assert "checkpoints/step-" in text, text
    after = losses(run)
    assert list(alone) == list(range(1, STEPS + 1)) and after.keys() == alone.keys()
    assert before == pytest.approx({step: alone[step] for step in before}, rel=tolerance)
    assert after == pytest.approx(alone, rel=tolerance)


def texts(processes: list[subprocess.Popen[str]]) -> list[str]:
    return [process.communicate(timeout=60)[0] for process in processes]
