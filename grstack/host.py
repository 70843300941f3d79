"""This machine: who we are on it, and the commands that a build needs from it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from grstack.errors import EngineError
from grstack.run import Runner


def arch() -> str:
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine(), platform.machine())


def is_root() -> bool:
    return os.geteuid() == 0


def is_debian_family() -> bool:
    release = Path("/etc/os-release")
    text = release.read_text() if release.exists() else ""
    return any(name in text for name in ("ID=debian", "ID=ubuntu", "ID_LIKE=debian")) and bool(shutil.which("apt-get"))


def codename() -> str:
    """The distribution's code name (bookworm, jammy, ...), or an empty text."""
    for line in Path("/etc/os-release").read_text().splitlines() if Path("/etc/os-release").exists() else []:
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    return ""


def ensure_commands(packages: dict[str, str], runner: Runner, log: Path) -> None:
    """Makes sure that each command is there; `packages` names the Debian package of each.

    As root on Debian or Ubuntu what is missing is installed; elsewhere the error says what to type.
    """
    missing = sorted({package for command, package in packages.items() if not shutil.which(command)})
    if not missing:
        return
    if not (is_root() and is_debian_family()):
        raise EngineError(
            f"this machine lacks {', '.join(missing)}", next_command=f"sudo apt-get install -y {' '.join(missing)}"
        )
    apt_install(missing, runner, log)


def apt_install(packages: list[str], runner: Runner, log: Path) -> None:
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    runner.stream(["apt-get", "update", "-qq"], log=log, env=env)
    runner.stream(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], log=log, env=env)
