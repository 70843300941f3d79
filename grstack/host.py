"""This machine: who we are on it, and the commands that a build needs from it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grstack import ascend
from grstack.ask import ask
from grstack.errors import EngineError
from grstack.run import Runner

ADD_ONLY = ("--no-install-recommends", "--no-upgrade", "--no-remove")


def arch() -> str:
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine(), platform.machine())


def memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its control group's limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    file = Path("/sys/fs/cgroup/memory.max")
    limit = file.read_text().strip() if file.is_file() else ""
    return min(total, int(limit)) if limit.isdigit() else total


def is_root() -> bool:
    return os.geteuid() == 0


def release(file: Path = Path("/etc/os-release")) -> dict[str, str]:
    """What the distribution says of itself: ID, ID_LIKE, VERSION_CODENAME, ..."""
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def is_debian_family() -> bool:
    said = release()
    names = {said.get("ID", ""), *said.get("ID_LIKE", "").split()}
    return bool(names & {"debian", "ubuntu"}) and bool(shutil.which("apt-get"))


def can_install() -> bool:
    return is_root() and is_debian_family()


def codename() -> str:
    """The distribution's code name (bookworm, jammy, ...), or an empty text."""
    return release().get("VERSION_CODENAME", "")


@dataclass(frozen=True, kw_only=True)
class Cann:
    home: Path
    version: str | None  # None where no install record says it


def cann() -> Cann | None:
    """The CANN toolkit of this machine: the one that is named, else where toolkits are by default."""
    named = os.environ.get("ASCEND_HOME_PATH")
    places = [named] if named else [ascend.HOME, ascend.LATER_HOME]
    home = next((Path(place) for place in places if Path(place).is_dir()), None)
    if home is None:
        return None
    files = [home / "version.info", home / "version.cfg", *sorted(home.glob("*-linux/ascend_toolkit_install.info"))]
    found = (field_of(file, key) for file in files for key in ("version", "Version", "toolkit_running_version"))
    return Cann(home=home, version=next((version for version in found if version), None))


def field_of(path: Path, name: str) -> str | None:
    """The value of `name=value` in an install record."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and key.strip() == name:
            return value.strip().strip("[]\"'") or None
    return None


def has_dnf() -> bool:
    """Whether this machine's packages are dnf's: openEuler, RHEL and its like."""
    return not shutil.which("apt-get") and bool(shutil.which("dnf"))


def install_command(packages: Iterable[str]) -> str:
    """What to type; `packages` are named as Debian has them, for dnf (openEuler, RHEL) as that does."""
    names = list(packages)
    if not has_dnf():
        return f"sudo apt-get install -y {' '.join(names)}"
    rpms = {"g++": "gcc-c++"}
    return f"sudo dnf install -y {' '.join(rpms.get(name, name) for name in names if not name.endswith('-venv'))}"


def ensure_commands(packages: Mapping[str, str], runner: Runner, log: Path, env: Mapping[str, str]) -> None:
    """Makes sure that each command is there; `packages` names the Debian package of each.

    As root on Debian or Ubuntu what is missing is installed; elsewhere the error says what to type. `env` holds the
    proxies and the CA bundle for apt.
    """
    ensure_packages([package for command, package in packages.items() if not shutil.which(command)], runner, log, env)


def ensure_packages(missing: Iterable[str], runner: Runner, log: Path, env: Mapping[str, str]) -> None:
    names = sorted(set(missing))
    if not names:
        return
    if not can_install():
        raise EngineError(f"this machine lacks {', '.join(names)}", next_command=install_command(names))
    apt_install(names, runner, log, env)


def apt_install(
    packages: Sequence[str], runner: Runner, log: Path, env: Mapping[str, str], *, some: bool = False
) -> None:
    """Installs packages with the host's apt; with `some`, those of them that its distribution has.

    What is installed stays as it is: an upgrade could restart a running engine, a removal replace another one.
    """
    env = {"DEBIAN_FRONTEND": "noninteractive", **env}
    # apt takes its CA bundle from an option only
    options = [f"-o=Acquire::https::CaInfo={env['SSL_CERT_FILE']}"] if "SSL_CERT_FILE" in env else []
    runner.stream(["apt-get", *options, "update", "-qq"], log=log, env=env)
    names = apt_knows(packages) if some else packages
    runner.stream(["apt-get", *options, "install", "-y", "-qq", *ADD_ONLY, *names], log=log, env=env)


def apt_knows(packages: Iterable[str]) -> list[str]:
    """Those of `packages` that this machine's apt could install."""
    names = list(packages)
    if not shutil.which("apt-cache"):
        return []
    answer = ask(["apt-cache", "policy", *names], env={"LC_ALL": "C"})
    blocks = re.findall(r"^(\S+):\n.*\n +Candidate: (\S+)", answer.output, re.MULTILINE)
    found = {name for name, candidate in blocks if candidate != "(none)"}
    return [name for name in names if name in found]
