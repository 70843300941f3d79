"""Finds an engine by name; where none runs, installs and starts one if this is root on Debian or Ubuntu."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from grstack import host
from grstack.engines import docker_cli
from grstack.engines.base import Engine
from grstack.errors import EngineError, UsageError
from grstack.paths import Paths
from grstack.run import Runner

NAMES = ("auto", "docker", "none")
DAEMON_LOG = Path("/var/log/grstack-dockerd.log")


def find_engine(name: str, paths: Paths, runner: Runner) -> Engine:
    if name not in NAMES:
        raise UsageError.unknown("engine", name, NAMES)
    if name == "none":
        from grstack.engines.local import LocalEngine

        return LocalEngine(paths, runner)
    from grstack.engines.docker import DockerEngine

    if not answers():
        _start(paths, runner)
    docker_cli.find_client()
    return DockerEngine(paths, runner)


def answers() -> bool:
    """Whether a Docker daemon answers (at DOCKER_HOST or the default socket)."""
    import docker.errors

    import docker

    try:
        docker.from_env(timeout=5).ping()
    except (docker.errors.DockerException, OSError):
        return False
    return True


def _start(paths: Paths, runner: Runner) -> None:
    if not (host.is_root() and host.is_debian_family()):
        raise EngineError(
            "no container engine answers",
            next_command="sudo systemctl start docker   (to install: sudo apt-get install -y docker.io; "
            "without any engine: add --engine none)",
        )
    if not shutil.which("dockerd"):
        runner.console.print("no container engine found: installing docker.io")
        host.apt_install(["docker.io"], runner, paths.logs / "engine.log")
    if answers():  # the package's own start script may have done it
        return
    runner.console.print(f"starting dockerd (log: {DAEMON_LOG})")
    with DAEMON_LOG.open("a") as log:
        subprocess.Popen(["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    for _ in range(60):
        if answers():
            return
        time.sleep(0.5)
    tail = "\n".join(f"    {line}" for line in DAEMON_LOG.read_text().splitlines()[-10:])
    raise EngineError(
        f"dockerd did not start within 30 s\n{tail}", where=str(DAEMON_LOG), next_command="dockerd, or --engine none"
    )
