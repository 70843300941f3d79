"""Which engine is taken: the named one or none; a daemon is started only where this machine's own was meant."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker.errors
import pytest
from rich.console import Console

from grstack import host
from grstack.doctor import checks
from grstack.doctor.facts import HostFacts
from grstack.engines import connect, docker_cli, find
from grstack.engines.docker import DockerEngine
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import Runner

HOSTS = ["tcp://127.0.0.1:1", "unix:///not/there.sock", "ssh://nobody@127.0.0.1:1", "nonsense"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a root on Debian would have installed and started."""
    done: list[str] = []
    monkeypatch.setattr(host, "can_install", lambda: True)
    monkeypatch.setattr(host, "apt_install", lambda *args, **more: done.append("apt"))

    def popen(*args: object, **more: object) -> None:
        done.append("dockerd")
        raise EngineError("started")

    monkeypatch.setattr(find, "leave_running", popen)
    return done


def look(tmp_path: Path) -> None:
    find.find_engine("auto", Paths(root=tmp_path, cache=tmp_path), Runner(Console(file=io.StringIO())), Settings())


@pytest.mark.parametrize("name", HOSTS)
def test_an_unreachable_docker_host_is_an_error_at_once(
    name: str, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", name)
    begun = time.monotonic()
    with pytest.raises(EngineError, match="no container engine answers at ") as error:
        look(tmp_path)
    assert time.monotonic() - begun < 10
    assert name.rpartition("@")[2] in error.value.what
    assert error.value.where == "DOCKER_HOST" and error.value.next_command.startswith("unset DOCKER_HOST")
    assert started == []


@pytest.mark.parametrize("name", ["", "unix:///var/run/docker.sock"])
def test_this_machine_s_own_engine_is_started(
    name: str, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", name)
    monkeypatch.setattr(find, "answers", lambda: False)
    monkeypatch.setattr(find, "DAEMON_LOG", tmp_path / "log")
    with pytest.raises(EngineError, match="started"):
        look(tmp_path)
    assert started[-1] == "dockerd"


def test_the_doctor_names_the_host_and_not_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    finding = checks.engine.check(HostFacts(tmp_path, Runner(Console(file=io.StringIO()))))
    assert finding.severity.value == "error" and "tcp://127.0.0.1:1" in finding.message
    assert finding.remedy.startswith("unset DOCKER_HOST") and "apt-get" not in finding.remedy


# Contexts of the docker command line ---------------------------------------------------------------------------------


class Api(http.server.BaseHTTPRequestHandler):
    """What the SDK asks of an engine before it works: rootless Docker 27, whose machine has this one's name."""

    def do_GET(self) -> None:
        place = self.path.rpartition("/")[2]
        info = {"ServerVersion": "27.5.1", "Name": socket.gethostname(), "SecurityOptions": ["name=rootless"]}
        body = b"OK" if place == "_ping" else json.dumps({"ApiVersion": "1.47", **info}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if place == "_ping" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...

    def address_string(self) -> str:
        return "unix"


class Contexts:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "live.sock"
        for name in ("live", "dead"):
            place = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
            place.mkdir(parents=True)
            endpoints = {"docker": {"Host": f"unix://{folder}/{name}.sock", "SkipTLSVerify": False}}
            (place / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))

    def use(self, name: str) -> None:
        (self.folder / "config.json").write_text(json.dumps({"currentContext": name}))


@pytest.fixture
def contexts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Contexts]:
    """Two of them, in a folder of settings as `docker context create` writes it; an engine answers in one."""
    made = Contexts(tmp_path_factory.mktemp("docker"))
    monkeypatch.setenv("DOCKER_CONFIG", str(made.folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    server = socketserver.ThreadingUnixStreamServer(str(made.socket), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def test_the_context_of_the_command_line_is_asked(contexts: Contexts, tmp_path: Path) -> None:
    contexts.use("live")
    assert find.answers() and find.named_host() == f"unix://{contexts.socket}"
    engine = DockerEngine(Paths(root=tmp_path, cache=tmp_path), Runner(Console(file=io.StringIO())), Settings())
    assert engine.daemon.rootless and engine.daemon.version == "27.5.1" and not engine.daemon.elsewhere


def test_variables_come_before_the_context_in_use(contexts: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts.use("dead")
    monkeypatch.setenv("DOCKER_CONTEXT", "live")
    assert find.answers()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{contexts.folder}/dead.sock")
    assert not find.answers() and connect.endpoint() is not None
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert connect.endpoint() is None
    monkeypatch.setenv("DOCKER_HOST", "")
    assert find.answers()


@pytest.mark.parametrize(("name", "where"), [("dead", "/dead.sock"), ("gone", "context gone")])
def test_a_context_without_an_engine_is_an_error_and_none_is_started(
    contexts: Contexts, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str
) -> None:
    contexts.use(name)
    with pytest.raises(EngineError, match="no container engine answers at ") as error:
        look(tmp_path)
    assert where in error.value.what and error.value.where == f"docker context {name}" and started == []
    assert error.value.next_command.startswith("docker context use default")
    monkeypatch.setenv("DOCKER_CONTEXT", name)
    with pytest.raises(EngineError) as error:
        look(tmp_path)
    assert error.value.next_command.startswith("unset DOCKER_CONTEXT")


def test_the_doctor_looks_at_the_engine_of_the_context(
    contexts: Contexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = HostFacts(tmp_path, Runner(Console(file=io.StringIO())))
    contexts.use("dead")
    finding = checks.engine.check(facts)
    assert finding.severity.value == "error" and "docker context dead names" in finding.message
    contexts.use("live")
    monkeypatch.setattr(docker_cli, "find_client", lambda: Path("docker"))
    finding = checks.engine.check(facts)
    assert finding.message == "Docker 27.5.1, rootless, by docker context live"


def test_a_socket_that_is_closed_to_this_user_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK says it: the system's error inside two others."""

    def closed(timeout: int) -> None:
        try:
            raise ConnectionError("Connection aborted.", PermissionError(13, "Permission denied"))
        except ConnectionError as error:
            raise docker.errors.DockerException(f"Error while fetching server API version: {error}") from error

    monkeypatch.setattr(find, "connect", closed)
    monkeypatch.setattr(connect, "connect", closed)
    monkeypatch.setattr(host, "can_install", lambda: False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    with pytest.raises(EngineError, match="its socket is not open to you") as error:
        look(tmp_path)
    assert error.value.next_command == "sudo usermod -aG docker $USER, then log in again"
    finding = checks.engine.check(HostFacts(tmp_path, Runner(Console(file=io.StringIO()))))
    assert finding.remedy == error.value.next_command
