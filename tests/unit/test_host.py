"""Installing an engine with the distribution's own packages, on a machine whose apt is a script."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from grstack import host
from grstack.engines import docker_cli, find
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import Runner

CLIENT = """#!/bin/sh
case "$1" in
    buildx) test -e {bin}/buildx;;
    *) echo "Docker version 28.2.2, build x";;
esac
"""


class Machine:
    """A Debian machine whose apt knows `packages`; installing docker-buildx makes the client able to build."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *packages: str, daemon: bool = True) -> None:
        self.bin = root / "bin"
        self.bin.mkdir()
        self.log = root / "apt.log"
        known = "\n".join(
            f"    {name}) echo '{name}:'; echo '  Installed: (none)'; echo '  Candidate: 1.0';;" for name in packages
        )
        self.script("apt-cache", f'for name in "$@"; do case "$name" in\n{known}\n    *) ;;\nesac; done')
        self.script(
            "apt-get",
            f'echo "$* proxy=$https_proxy" >> {self.log}\n'
            f'case "$*" in *install*docker-buildx*) : > {self.bin}/buildx;; esac',
        )
        if daemon:
            self.script("dockerd", "exit 0")
            self.client()
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        monkeypatch.setattr(docker_cli, "clients", lambda: [path for path in [self.bin / "docker"] if path.exists()])
        monkeypatch.setattr(host, "is_root", lambda: True)
        monkeypatch.setattr(host, "is_debian_family", lambda: True)
        monkeypatch.setattr(find, "answers", lambda: daemon)
        self.paths = Paths(root=root, cache=root / "cache")
        self.runner = Runner(Console(file=io.StringIO()))

    def script(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def client(self) -> None:
        (self.bin / "docker").write_text(CLIENT.format(bin=self.bin))
        (self.bin / "docker").chmod(0o755)

    def find(self) -> None:
        find.find_engine("docker", self.paths, self.runner, Settings(https_proxy="http://proxy.invalid:3128"))

    @property
    def installs(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if "install" in line]


def test_a_client_that_cannot_build_gets_buildx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "docker.io", "docker-buildx")
    machine.find()
    (line,) = machine.installs
    packages = line.split(" proxy=")[0].split("--no-remove ")[1]
    assert packages == "docker.io docker-buildx", "docker-cli is not known here and not asked for"
    assert "--no-upgrade" in line, "a running engine is not restarted"
    assert line.endswith("proxy=http://proxy.invalid:3128")


def test_the_error_names_what_this_distribution_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(tmp_path, monkeypatch, "docker.io", "docker-cli", "docker-buildx")
    with pytest.raises(EngineError, match=r"28, without buildx") as error:
        docker_cli.find_client()
    assert error.value.next_command == "sudo apt-get install -y docker.io docker-cli docker-buildx"


def test_others_than_root_are_told_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "docker.io", "docker-buildx", daemon=False)
    monkeypatch.setattr(host, "is_root", lambda: False)
    with pytest.raises(EngineError, match="no container engine answers") as error:
        machine.find()
    assert "apt-get install -y docker.io docker-buildx;" in error.value.next_command
    assert "--engine none" in error.value.next_command and not machine.log.exists()


def test_an_engine_is_installed_with_its_client_and_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "docker.io", "docker-cli", "docker-buildx", daemon=False)
    machine.script(
        "apt-get",
        f'echo "$*" >> {machine.log}\ncase "$*" in *install*) : > {machine.bin}/buildx;\n'
        f"cp {machine.bin}/dockerd.package {machine.bin}/dockerd;; esac",
    )
    machine.script("dockerd.package", f'echo "$https_proxy" > {tmp_path}/started')
    machine.client()
    monkeypatch.setattr(find, "DAEMON_LOG", tmp_path / "dockerd.log")
    monkeypatch.setattr(find, "answers", (tmp_path / "started").is_file)
    machine.find()
    assert machine.installs[0].split()[-3:] == ["docker.io", "docker-cli", "docker-buildx"]
    assert (tmp_path / "started").read_text() == "http://proxy.invalid:3128\n", "the daemon pulls through the proxy"


def test_a_private_ca_is_told_to_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, "mmdebstrap")
    env = {"SSL_CERT_FILE": "/etc/corp.pem"}
    host.ensure_packages(["mmdebstrap", "mmdebstrap"], machine.runner, tmp_path / "log", env)
    assert all("CaInfo=/etc/corp.pem" in line for line in machine.log.read_text().splitlines())
    assert machine.installs[0].count("mmdebstrap") == 1


def test_what_to_type_is_of_this_machine_s_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "dnf" else None)
    assert host.install_command(["g++", "python3.11", "python3.11-venv"]) == "sudo dnf install -y gcc-c++ python3.11"
    assert docker_cli.install_command().startswith("sudo dnf install -y docker-ce ")
    monkeypatch.setattr(host.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert host.install_command(["g++"]) == "sudo apt-get install -y g++"
