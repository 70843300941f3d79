"""deploy/slurm/train.sbatch on two nodes of a real Slurm, both of them this machine: containers that find each other.

Slow: `python -m pytest -m slow tests/integration/test_slurm.py`, as root, with slurm-wlm, munge and a running engine.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/slurm/train.sbatch"
COMMANDS = ("slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "squeue", "munged")
STEPS = 60
CONFIG = [
    "--config",
    "smoke",
    f"train.steps={STEPS}",
    "train.eval_every=0",
    "train.log_every=1",
    "train.deterministic=true",
]
CONF = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort=16827
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=40
NodeName=host-a NodeHostname={host} NodeAddr=127.0.0.1 Port=17011 CPUs=1
NodeName=host-b NodeHostname={host} NodeAddr=127.0.0.1 Port=17012 CPUs=1
PartitionName=all Nodes=host-a,host-b Default=YES MaxTime=INFINITE State=UP
"""
pytestmark = [pytest.mark.image, pytest.mark.slow]


@dataclass
class Slurm:
    """A cluster of two nodes, its folder of jobs, and the image that they run."""

    folder: Path
    environment: dict[str, str]

    def call(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def submit(self, *arguments: str) -> int:
        return int(self.call("sbatch", "--parsable", str(SCRIPT), *arguments))

    def state(self, job: int) -> str:
        return self.call("squeue", "--noheader", "--states", "all", "--jobs", str(job), "--format", "%T")

    def log(self, job: int) -> str:
        path = self.folder / f"gr-train-{job}.log"
        return path.read_text() if path.exists() else ""

    def records(self, job: int) -> list[dict[str, object]]:
        path = self.folder / f"runs/slurm-{job}/log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def losses(self, job: int) -> dict[int, float]:
        return losses(self.records(job))

    def wait(self, job: int, done: Callable[[], bool], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"{self.state(job)}\n{self.log(job)}"
            time.sleep(0.3)


def losses(records: list[dict[str, object]]) -> dict[int, float]:
    steps = [record for record in records if record.get("event") == "step"]
    return {int(str(record["step"])): float(str(record["loss"])) for record in steps}


def containers(job: int) -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "--format={{.Names}}", f"--filter=name=gr-train-{job}-"], capture_output=True, text=True
    )
    return listed.stdout.split()


@pytest.fixture(scope="module")
def image() -> str:
    if missing := [name for name in COMMANDS if not shutil.which(name)]:
        pytest.fail(f"{', '.join(missing)}: not found; next: apt-get install -y slurm-wlm munge")
    if not (ROOT / "data/ml-100k").is_dir():
        pytest.fail("data/ml-100k: not there; next: make fetch-data ARGS=ml-100k")
    if getpass.getuser() != "root" or not answers():
        pytest.fail("these tests need root and a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    assert isinstance(s.engine, DockerEngine)
    return s.engine.image_id(s.plan)


@pytest.fixture(scope="module")
def slurm(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool-host-a", "spool-host-b", "runs"):
        (folder / name).mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=folder))
    started_munge = subprocess.run(["pgrep", "munged"], capture_output=True).returncode != 0
    if started_munge:
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge")
        subprocess.run(["runuser", "-u", "munge", "--", "munged"], check=True)
    environment = {
        **os.environ,
        "SLURM_CONF": str(conf),
        "GRSTACK_IMAGE": image,
        "GRSTACK_DATA": str(ROOT / "data"),
        "GRSTACK_RUNS": str(folder / "runs"),
        "GRSTACK_PROCESSES": "1",
    }
    daemons = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "host-a"], ["slurmd", "-D", "-N", "host-b"])
    ]
    cluster = Slurm(folder, environment)
    try:
        deadline = time.monotonic() + 30
        while subprocess.run(["srun", "-N2", "true"], env=environment, capture_output=True).returncode:
            assert time.monotonic() < deadline, (folder / "ctld.log").read_text()
        yield cluster
    finally:
        subprocess.run(["scancel", "--user", "root"], env=environment)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(60)


@pytest.fixture(scope="module")
def alone(image: str, slurm: Slurm) -> dict[int, float]:
    """The losses of one process, without Slurm."""
    runs = slurm.folder / "runs"
    command = ["docker", "run", "--rm", f"--user={os.getuid()}", f"--volume={ROOT}/data:/data:ro"]
    command += [f"--volume={runs}:/out", image]
    command += [
        "python",
        "-m",
        "gr_model.train",
        *CONFIG,
        "--device",
        "cpu",
        "--out",
        "/out/alone",
        "--progress",
        "lines",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return losses([json.loads(line) for line in (runs / "alone/log.jsonl").read_text().splitlines()])


def equal(found: dict[int, float], expected: dict[int, float], *, tolerance: float = 1e-5) -> None:
    assert len(expected) == STEPS and found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_two_nodes_have_the_losses_of_one_process(slurm: Slurm, alone: dict[int, float], device: str) -> None:
    job = slurm.submit("--device", device, *CONFIG)
    slurm.wait(job, lambda: slurm.state(job) == "COMPLETED")
    assert f"2 processes over {'gloo' if device == 'cpu' else 'hccl'}" in slurm.log(job)
    equal(slurm.losses(job), alone, tolerance=1e-5 if device == "cpu" else 1e-4)


def test_a_job_at_its_time_limit_goes_on_where_it_was(slurm: Slurm, alone: dict[int, float]) -> None:
    """Slurm's own signal, sent before its time; the requeued job need not wait for its turn."""
    job = slurm.submit("--device", "cpu", *CONFIG)
    slurm.wait(job, lambda: len(slurm.losses(job)) > 5)
    slurm.call("scancel", "--batch", "--signal", "USR1", str(job))
    slurm.wait(job, lambda: slurm.state(job) == "PENDING")
    before = slurm.losses(job)
    assert 5 < len(before) < STEPS
    assert "ended; the job is put into the queue again" in slurm.log(job)
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
    slurm.wait(job, lambda: slurm.state(job) == "COMPLETED")
    assert f"checkpoints/step-{max(before):08d}" in slurm.log(job)
    equal(slurm.losses(job), alone)


def test_a_cancelled_job_leaves_a_checkpoint_and_no_container(slurm: Slurm) -> None:
    job = slurm.submit("--device", "cpu", *CONFIG, "train.steps=5000")
    slurm.wait(job, lambda: len(slurm.losses(job)) > 2)
    assert len(containers(job)) == 2
    slurm.call("scancel", str(job))
    slurm.wait(job, lambda: not containers(job), seconds=45)
    assert list((slurm.folder / f"runs/slurm-{job}/checkpoints").glob("step-*"))


def test_an_unknown_engine_and_a_missing_device_are_told(slurm: Slurm) -> None:
    slurm.environment["GRSTACK_ENGINE"] = "dokcer"
    try:
        job = slurm.submit("--device", "cpu", *CONFIG)
        slurm.wait(job, lambda: slurm.state(job) == "FAILED")
        assert "unknown GRSTACK_ENGINE 'dokcer'; valid: docker, podman, apptainer, none" in slurm.log(job)
    finally:
        del slurm.environment["GRSTACK_ENGINE"]
    processes = slurm.environment.pop("GRSTACK_PROCESSES")
    try:
        job = slurm.submit("--device", "npu", *CONFIG)
        slurm.wait(job, lambda: slurm.state(job) == "FAILED")
        assert "no device of kind npu, and GRSTACK_PROCESSES is not set" in slurm.log(job)
    finally:
        slurm.environment["GRSTACK_PROCESSES"] = processes
