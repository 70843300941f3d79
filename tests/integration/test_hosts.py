"""One job on two hosts: two containers without a network of their own, joined by a cable, started by torchrun.

Each has its own network namespace, processes, and shared memory; nothing but TCP over the cable connects them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.session import Choices, Session

ROOT = Path(__file__).resolve().parents[2]
CHECKS = "/source/twin/tests/hccl"
ADDRESSES = ("10.213.7.1", "10.213.7.2")
SOON = 10.0  # far below the ranks' own limit of 60 s
pytestmark = pytest.mark.image


def call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@dataclass
class Hosts:
    """Two containers of the image; `cable` names the end of the cable in each."""

    image: str
    folder: Path
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    containers: list[str] = field(default_factory=list)
    cable: str = "cable0"

    def start(self) -> None:
        for number in range(2):
            call(
                "docker",
                "run",
                "--detach",
                "--rm",
                "--init",
                "--network=none",
                "--shm-size=256m",
                f"--name=grstack-host-{self.name}-{number}",
                f"--volume={ROOT}:/source:ro",
                f"--volume={self.folder}:/out",
                "--env=PYTHONDONTWRITEBYTECODE=1",
                "--env=OMP_NUM_THREADS=1",
                "--env=TORCHINDUCTOR_COMPILE_THREADS=1",
                self.image,
                "sleep",
                "600",
            )
            self.containers.append(f"grstack-host-{self.name}-{number}")
        ends = (f"gr{self.name}a", f"gr{self.name}b")
        call("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for container, end, address in zip(self.containers, ends, ADDRESSES, strict=True):
            process = call("docker", "inspect", "--format={{.State.Pid}}", container)
            call("ip", "link", "set", end, "netns", process, "name", self.cable)
            self.inside(process, "addr", "add", f"{address}/24", "dev", self.cable)
            self.inside(process, "link", "set", self.cable, "up")

    @staticmethod
    def inside(process: str, *words: str) -> None:
        call("nsenter", f"--target={process}", "--net", "ip", *words)

    def cut(self) -> None:
        process = call("docker", "inspect", "--format={{.State.Pid}}", self.containers[0])
        self.inside(process, "link", "set", self.cable, "down")

    def stop(self) -> None:
        for container in self.containers:
            subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)

    def torchrun(self, script: str, per_host: int, *arguments: str, **variables: str) -> list[subprocess.Popen[str]]:
        variables = {"TWIN_HCCL_TIMEOUT": "60", "GLOO_SOCKET_IFNAME": self.cable, **variables}
        settings = [f"--env={name}={value}" for name, value in variables.items()]
        launcher = ["python", "-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={per_host}"]
        launcher += [f"--master-addr={ADDRESSES[0]}", "--master-port=29533"]
        return [
            subprocess.Popen(
                ["docker", "exec", *settings, container, *launcher, f"--node-rank={number}", f"{CHECKS}/{script}"]
                + list(arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number, container in enumerate(self.containers)
        ]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    if os.geteuid() != 0:
        pytest.fail("joining two containers by a cable needs root")
    session = Session(ROOT, Choices(), Console(quiet=True))
    assert isinstance(session.engine, DockerEngine)
    image = session.engine.image_id(session.plan)
    assert image, "the image is not built; type: inv build-image"
    made = Hosts(image, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_all_collectives_between_hosts(hosts: Hosts) -> None:
    """Two ranks on each host: pairs on one host talk by Unix sockets, the others by TCP."""
    outputs = [process.communicate(timeout=240)[0] for process in hosts.torchrun("torch_checks.py", 2, "/out")]
    found = [json.loads(path.read_text()) for path in sorted(hosts.folder.glob("rank*.json"))]
    assert len(found) == 4, outputs
    for rank, checks in enumerate(found):
        assert {name: text for name, text in checks.items() if text != "ok"} == {}, f"rank {rank}"
        assert len(checks) > 40


@pytest.mark.parametrize(
    ("kind", "limit", "texts"),
    [
        ("killed", "60", ("rank 1 (pid ", f" at {ADDRESSES[1]}) is gone")),
        ("mismatch", "60", ("rank 1 ", "called HcclBroadcast #2", "this rank called HcclAllReduce #2")),
        ("cut", "4", ("HcclAllReduce #", "rank 1 (pid ", "no progress for 4 s")),
    ],
)
def test_failures_between_hosts_are_named(hosts: Hosts, kind: str, limit: str, texts: tuple[str, ...]) -> None:
    variables = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": limit}
    processes = hosts.torchrun("torch_failures.py", 1, kind, "/out", **variables)
    if kind == "cut":
        end = time.monotonic() + 120
        while not (hosts.folder / "ready1").exists():
            assert time.monotonic() < end, "the ranks did not start"
            time.sleep(0.05)
        hosts.cut()
        (hosts.folder / "cut").touch()
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    report = hosts.folder / "rank0.txt"
    # torchrun may end rank 0 in the same moment; the library has logged the text before.
    text = outputs[0]
    if report.exists():
        seconds, text = report.read_text().split("\n", 1)
        assert float(seconds) < SOON
    for expected in texts:
        assert expected in text, outputs[0]
