"""docker/base/bootstrap.sh where mmdebstrap is a script: what it is asked for, and what its hooks leave."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from grstack import host
from grstack.engines import bootstrap
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.run import Runner

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!/usr/bin/env python3
import json, os, subprocess, sys
root = os.environ["FAKE_ROOT"]
for argument in sys.argv:
    if argument.startswith("--customize-hook="):
        hook = argument.split("=", 1)[1]
        done = subprocess.run(["sh", "-c", hook, "exec", root])  # as mmdebstrap runs a hook
        if done.returncode:
            sys.exit(25)
json.dump(sys.argv[1:], open(os.environ["FAKE_ROOT"] + "/argv.json", "w"))
"""


@pytest.fixture
def bootstrapped(tmp_path: Path) -> Path:
    """A root file system as mmdebstrap leaves it, with the host's settings in it."""
    files = {
        "etc/os-release": "ID=debian\nVERSION_CODENAME=bookworm\n",
        "etc/apt/sources.list.d/0000host.sources": "URIs: http://mirror.corp/debian\n",
        "etc/apt/apt.conf.d/99mmdebstrap": 'Acquire::https::CaInfo "/etc/corp.pem";\n',
        "etc/apt/apt.conf.d/70debconf": "",
        "etc/resolv.conf": "nameserver 10.0.0.1\n",
        "usr/share/doc/apt/examples/sources.list": "deb the distribution's own\n",
        "var/log/apt/term.log": "http://mirror.corp/debian\n",
    }
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mmdebstrap").write_text(FAKE)
    (tmp_path / "bin/mmdebstrap").chmod(0o755)
    return tmp_path


def run(place: Path, suite: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "FAKE_ROOT": f"{place}/root", **environment}
    argv = [str(ROOT / "docker/base/bootstrap.sh"), f"debian/{suite}", "out.tar"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def test_mirror_and_ca_serve_the_download_and_do_not_stay(bootstrapped: Path) -> None:
    done = run(bootstrapped, "bookworm", GRSTACK_APT_SOURCES="/x/host.sources", GRSTACK_CA="/etc/corp.pem")
    assert done.returncode == 0, done.stderr
    argv = json.loads((bootstrapped / "root/argv.json").read_text())
    assert argv[-3:] == ["bookworm", "out.tar", "/x/host.sources"]
    assert '--aptopt=Acquire::https::CaInfo "/etc/corp.pem"' in argv
    left = {
        path.relative_to(bootstrapped / "root").as_posix()
        for path in (bootstrapped / "root").rglob("*")
        if path.is_file()
    }
    assert "etc/apt/sources.list" in left and "etc/apt/apt.conf.d/70debconf" in left
    assert all("corp" not in (bootstrapped / "root" / name).read_text() for name in left - {"argv.json"})
    assert "etc/resolv.conf" not in left


def test_without_a_mirror_the_distribution_s_default_is_used(bootstrapped: Path) -> None:
    assert run(bootstrapped, "bookworm").returncode == 0
    argv = json.loads((bootstrapped / "root/argv.json").read_text())
    assert argv[-2:] == ["bookworm", "out.tar"] and not any("aptopt" in argument for argument in argv)


def test_packages_of_another_release_are_refused(bootstrapped: Path) -> None:
    done = run(bootstrapped, "trixie")
    assert done.returncode != 0 and "not those of trixie" in done.stderr


def test_a_key_that_the_host_s_apt_has_not_comes_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its fingerprint: tests/unit/test_keyrings.py."""
    keyring, runner = tmp_path / "ubuntu.gpg", Runner(Console(quiet=True))
    monkeypatch.setitem(bootstrap.KEYRINGS, "ubuntu", (keyring, "ubuntu-keyring"))
    monkeypatch.setattr(host, "ensure_commands", lambda *args: None)
    monkeypatch.setattr(host, "apt_knows", lambda names: [])
    monkeypatch.setattr(host, "release", lambda *file: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    bootstrap.ensure_tools("ubuntu/jammy", runner, tmp_path / "log", Settings())
    settings = Settings(ubuntu_archive="http://127.0.0.1/ubuntu")
    asked: list[object] = []
    monkeypatch.setattr(bootstrap.keyrings, "fetched", lambda *words: asked.append(words) or "\n KEY\n .\n END")
    text = bootstrap.host_secrets(tmp_path, runner, settings, "ubuntu", "jammy")["apt_sources"].read_text()
    assert "\nSigned-By: \n KEY\n .\n END\n" in text and len(asked) == 1
    keyring.touch()
    text = bootstrap.host_secrets(tmp_path, runner, settings, "ubuntu", "jammy")["apt_sources"].read_text()
    assert f"Signed-By: {keyring}\n" in text and len(asked) == 1


def test_ubuntu_s_archive_serves_a_host_of_another_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = tmp_path / "ubuntu.gpg"
    keyring.touch()
    monkeypatch.setitem(bootstrap.KEYRINGS, "ubuntu", (keyring, "ubuntu-keyring"))
    monkeypatch.setattr(host, "release", lambda *file: {"ID": "debian", "VERSION_CODENAME": "bookworm"})
    runner = Runner(Console(quiet=True))
    with pytest.raises(EngineError, match="packages of jammy are needed") as error:
        bootstrap.host_secrets(tmp_path, runner, Settings(), "ubuntu", "jammy")
    assert "GRSTACK_UBUNTU_ARCHIVE=URL" in str(error.value.next_command)
    settings = Settings(ubuntu_archive="http://127.0.0.1/ubuntu")
    files = bootstrap.host_secrets(tmp_path, runner, settings, "ubuntu", "jammy")
    lines = files["apt_sources"].read_text().splitlines()
    assert lines[1] == "URIs: http://127.0.0.1/ubuntu"
    assert "Suites: jammy jammy-updates jammy-security" in lines
    assert "Components: main universe" in lines, "Ninja and makeself are in universe"
    assert f"Signed-By: {bootstrap.KEYRINGS['ubuntu'][0]}" in lines


@pytest.mark.parametrize(("release", "has_apt"), [("debian/bookworm", False), ("ubuntu/jammy", True)])
def test_apt_is_asked_for_where_the_smallest_system_lacks_it(
    release: str, has_apt: bool, bootstrapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bootstrapped / "root/etc/os-release").write_text(f"VERSION_CODENAME={release.partition('/')[2]}\n")
    monkeypatch.setenv("PATH", f"{bootstrapped}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ROOT", f"{bootstrapped}/root")
    (bootstrapped / "ubuntu.gpg").touch()
    monkeypatch.setitem(bootstrap.KEYRINGS, "ubuntu", (bootstrapped / "ubuntu.gpg", "ubuntu-keyring"))
    settings = Settings(ubuntu_archive="http://127.0.0.1/ubuntu")
    script, runner = ROOT / "docker/base/bootstrap.sh", Runner(Console(quiet=True))
    bootstrap.make_root(script, release, bootstrapped / "out.tar", runner, bootstrapped / "log", settings)
    argv = json.loads((bootstrapped / "root/argv.json").read_text())
    (include,) = [word for word in argv if word.startswith("--include=")]
    assert ("apt" in include.removeprefix("--include=").split(",")) == has_apt
    assert {"python3", "g++", "ninja-build"} <= set(include.removeprefix("--include=").split(","))
