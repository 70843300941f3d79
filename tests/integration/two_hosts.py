"""Two hosts that are containers without a network of their own, joined by a cable.

Each has its own network namespace, processes, and shared memory; nothing but TCP over the cable connects them, and the
folder /out, which both see, as hosts of a cluster see a shared file system.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
ADDRESSES = ("10.213.7.1", "10.213.7.2")


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
                f"--user={os.getuid()}:{os.getgid()}",
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

    def call(self, host: int, *command: str) -> str:
        """What a command says that runs on one host."""
        command = ("docker", "exec", "--env=OMP_NUM_THREADS=1", self.containers[host], *command)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def kill(self, text: str) -> None:
        """Ends at once, on both hosts, the processes whose command line has `text`."""
        for container in self.containers:
            subprocess.run(["docker", "exec", container, "pkill", "-KILL", "-f", text], capture_output=True)

    def stop(self) -> None:
        for container in self.containers:
            subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)

    def torchrun(self, per_host: int, *program: str, **variables: str) -> list[subprocess.Popen[str]]:
        """One torchrun on each host; `program` is its file and arguments, or -m and a module."""
        variables = {"TWIN_HCCL_TIMEOUT": "60", "GLOO_SOCKET_IFNAME": self.cable, **variables}
        settings = [f"--env={name}={value}" for name, value in variables.items()]
        launcher = ["python", "-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={per_host}"]
        launcher += [f"--master-addr={ADDRESSES[0]}", "--master-port=29533"]
        return [
            subprocess.Popen(
                ["docker", "exec", *settings, container, *launcher, f"--node-rank={number}"] + list(program),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number, container in enumerate(self.containers)
        ]


@contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    if os.geteuid() != 0:
        pytest.fail("joining two containers by a cable needs root")
    session = Session(ROOT, Choices(), Console(quiet=True))
    assert isinstance(session.engine, DockerEngine)
    image = session.engine.image_id(session.plan)
    assert image, "the image is not built; type: inv build-image"
    made = Hosts(image, folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
