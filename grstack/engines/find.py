"""Finds an engine by name; where none runs, installs and starts one if this is root on Debian or Ubuntu."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from grstack import host
from grstack.engines import docker_cli
from grstack.engines.base import Engine
from grstack.engines.connect import JOIN_GROUP, connect, endpoint, is_closed
from grstack.errors import EngineError, UsageError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import Runner, leave_running

NAMES = ("auto", "docker", "none")
DAEMON_LOG = Path("/var/log/grstack-dockerd.log")


def find_engine(name: str, paths: Paths, runner: Runner, settings: Settings) -> Engine:
    if name not in NAMES:
        raise UsageError.unknown("engine", name, NAMES)
    if name == "none":
        from grstack.engines.local import LocalEngine

        return LocalEngine(paths, runner, settings)
    from grstack.engines.docker import DockerEngine

    if not answers():
        _refuse_another_host(settings)
        _refuse_closed_socket()
        _start(paths, runner, settings)
    _ensure_client(paths, runner, settings)
    return DockerEngine(paths, runner, settings)


def named_host() -> str:
    """What DOCKER_HOST or a context names, if it is not the engine that a build could start here."""
    found = endpoint()
    return found.host if found else ""


def _refuse_another_host(settings: Settings) -> None:
    """The user has chosen an engine: one that is started here in its place would have none of their images."""
    if chosen := endpoint():
        raise EngineError(
            f"no container engine answers at {settings.redact(chosen.host)}",
            where=chosen.chosen_by,
            next_command=f"{chosen.undo}   (to use this machine's own engine)",
        )


def _refuse_closed_socket() -> None:
    import docker.errors

    try:
        connect(timeout=5).ping()
    except (docker.errors.DockerException, OSError) as error:
        if is_closed(error):
            raise EngineError("Docker runs, and its socket is not open to you", next_command=JOIN_GROUP) from error


def answers() -> bool:
    """Whether the Docker daemon answers that the command line would ask."""
    import docker.errors

    try:
        connect(timeout=5).ping()
    except (docker.errors.DockerException, OSError):
        return False
    return True


def _ensure_client(paths: Paths, runner: Runner, settings: Settings) -> None:
    """A daemon may answer where no client can build: the distribution may ship docker, docker-cli and buildx apart."""
    try:
        docker_cli.find_client()
    except EngineError as error:
        if not host.can_install():
            raise
        runner.console.print(f"{error.what}: installing one")
        log = paths.logs / "engine.log"
        host.apt_install(docker_cli.PACKAGES, runner, log, settings.connection(), some=True)
        docker_cli.find_client()


def _start(paths: Paths, runner: Runner, settings: Settings) -> None:
    if not host.can_install():
        raise EngineError(
            "no container engine answers",
            next_command=f"sudo systemctl start docker   (to install: {docker_cli.install_command()}; "
            "without any engine: add --engine none)",
        )
    if not shutil.which("dockerd"):
        runner.console.print("no container engine found: installing docker.io")
        host.apt_install(docker_cli.PACKAGES, runner, paths.logs / "engine.log", settings.connection(), some=True)
    if answers():  # the package's own start script may have done it
        return
    runner.console.print(f"starting dockerd (log: {DAEMON_LOG})")
    # the daemon pulls images itself: it needs the proxies and the CA bundle too
    leave_running(["dockerd"], log=DAEMON_LOG, env=settings.connection())
    for _ in range(60):
        if answers():
            return
        time.sleep(0.5)
    tail = "\n".join(f"    {line}" for line in DAEMON_LOG.read_text().splitlines()[-10:])
    raise EngineError(
        f"dockerd did not start within 30 s\n{tail}", where=str(DAEMON_LOG), next_command="dockerd, or --engine none"
    )
