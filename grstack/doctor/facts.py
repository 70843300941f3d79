"""What the checks ask of this machine. Tests pass their own `Facts`, so that no check touches the real one."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from grstack import host, network
from grstack.opp.search import Environment, candidates, conflicts
from grstack.paths import Paths
from grstack.run import CommandFailed, Runner
from grstack.spec import Versions, load

GIB = 2**30
PATIENCE = 4.0  # seconds that a check may wait for something outside


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """`version` is None where no daemon answers; `problem` says what the client lacks, if anything."""

    version: str | None
    problem: str = ""
    can_install: bool = False  # root on Debian or Ubuntu: the first build installs and starts one


@dataclass(frozen=True, kw_only=True)
class NpuState:
    devices: tuple[str, ...]  # /dev/davinciN
    driver: str | None  # version of the installed driver
    tool: str | None  # path of npu-smi


@dataclass(frozen=True, kw_only=True)
class CannState:
    home: Path
    version: str | None


@dataclass(frozen=True, kw_only=True)
class OppState:
    place: str  # the opp directory, or the variable that names vendors
    vendors: int  # that the runtime asks
    faults: tuple[str, ...] = ()  # conflicts, and vendors that are named and cannot serve


class Facts(Protocol):
    """Each member is asked by one check only, from that check's own thread."""

    @property
    def versions(self) -> Versions: ...
    @property
    def arch(self) -> str: ...
    @property
    def memory(self) -> int:
        """Bytes of memory that this process may use: the machine's, or its control group's limit."""
        ...

    @property
    def places(self) -> tuple[Path, ...]:
        """Where builds and downloads are kept."""
        ...

    @property
    def python(self) -> tuple[int, int]: ...
    def has_python(self, version: str) -> bool: ...
    def filesystem(self, path: Path) -> int:
        """An identity of the file system behind `path`."""
        ...

    def free(self, path: Path) -> int:
        """Free bytes on that file system."""
        ...

    def engine(self) -> EngineState: ...
    def npu(self) -> NpuState: ...
    def cann(self) -> CannState | None: ...
    def opp(self) -> OppState | None: ...
    def index_problem(self) -> str | None:
        """Asks the configured package index for one package; None if it answers. No credential is shown."""
        ...

    @property
    def cached_wheels(self) -> int: ...


class HostFacts:
    """The machine that this runs on."""

    def __init__(self, root: Path, runner: Runner) -> None:
        self.paths = Paths.of(root)
        self.runner = runner

    @cached_property
    def versions(self) -> Versions:
        return load(self.paths.root / "versions.yaml")

    @property
    def arch(self) -> str:
        return host.arch()

    @property
    def memory(self) -> int:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = _text(Path("/sys/fs/cgroup/memory.max"))
        return min(total, int(limit)) if limit and limit.isdigit() else total

    @property
    def places(self) -> tuple[Path, ...]:
        return self.paths.build, self.paths.cache

    @property
    def python(self) -> tuple[int, int]:
        return sys.version_info[:2]

    def has_python(self, version: str) -> bool:
        return version == f"{self.python[0]}.{self.python[1]}" or shutil.which(f"python{version}") is not None

    def filesystem(self, path: Path) -> int:
        return _existing(path).stat().st_dev

    def free(self, path: Path) -> int:
        return shutil.disk_usage(_existing(path)).free

    def engine(self) -> EngineState:
        import docker.errors

        import docker
        from grstack.engines import docker_cli
        from grstack.errors import EngineError

        can_install = host.is_root() and host.is_debian_family()
        try:
            version = str(docker.from_env(timeout=int(PATIENCE)).version()["Version"])
        except (docker.errors.DockerException, OSError, KeyError):
            return EngineState(version=None, can_install=can_install)
        try:
            docker_cli.find_client()
        except EngineError as error:
            return EngineState(version=version, problem=error.what, can_install=can_install)
        return EngineState(version=version)

    def npu(self) -> NpuState:
        devices = sorted(path.name for path in Path("/dev").glob("davinci[0-9]*"))
        driver = _field(Path("/usr/local/Ascend/driver/version.info"), "Version")
        tool = shutil.which("npu-smi") or shutil.which("npu-smi", path="/usr/local/sbin")
        return NpuState(devices=tuple(devices), driver=driver, tool=tool)

    def cann(self) -> CannState | None:
        home = Path(os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest"))
        if not home.is_dir():
            return None
        files = [home / "version.info", home / "version.cfg", *sorted(home.glob("*-linux/ascend_toolkit_install.info"))]
        found = (_field(file, key) for file in files for key in ("version", "Version", "toolkit_running_version"))
        return CannState(home=home, version=next((version for version in found if version), None))

    def opp(self) -> OppState | None:
        environment = Environment.of(os.environ)
        if not environment.opp and not environment.custom:
            return None
        found = candidates(environment)
        faults = [f"{c.vendor.name}: {c.not_asked}" for c in found if c.not_asked and c.found_by != "nothing"]
        faults += [f"{s.operator} is in {1 + len(s.shadowed)} vendors" for s in conflicts(found)]
        asked = sum(not c.not_asked for c in found)
        return OppState(place=environment.opp or "ASCEND_CUSTOM_OPP_PATH", vendors=asked, faults=tuple(faults))

    def index_problem(self) -> str | None:
        settings = network.load()
        # uv is the client that builds use, so proxy, CA bundle and credentials are tried as they will be used.
        argv = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-deps", "--no-cache", "--quiet"]
        argv += ["--reinstall-package", "tqdm", "--python", sys.executable, "tqdm"]
        try:
            self.runner.capture(argv, env=settings.environment(), timeout=PATIENCE)
        except CommandFailed as error:
            said = " ".join(line.strip() for line in error.tail if line.strip())
            return settings.redact(said) or f"uv ended with code {error.code}"
        return None

    @property
    def cached_wheels(self) -> int:
        return sum(1 for _ in self.paths.wheels.rglob("*.whl")) if self.paths.wheels.is_dir() else 0


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _field(path: Path, name: str) -> str | None:
    """The value of `name=value` in an install record."""
    for line in (_text(path) or "").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == name:
            return value.strip().strip("[]\"'") or None
    return None
