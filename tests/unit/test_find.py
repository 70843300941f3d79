"""Which engine is taken: the named one or none; a daemon is started only where this machine's own was meant."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from grstack import host
from grstack.doctor import checks
from grstack.doctor.facts import HostFacts
from grstack.engines import find
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
