"""What the checks ask of this machine. Tests pass their own `Facts`, so that no check touches the real one."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from grstack import host, network
from grstack.files import free_bytes
from grstack.launch import gpu, npu
from grstack.launch.daemon import Daemon
from grstack.launch.machine import Machine
from grstack.launch.seen import Seen
from grstack.opp.search import Environment, candidates, conflicts
from grstack.paths import Paths
from grstack.run import CommandFailed, Runner
from grstack.spec import Versions, load

PATIENCE = 4.0  # seconds that a check may wait for something outside


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """`version` is None where no daemon answers; `problem` says what the client lacks; `remedy` installs it."""

    version: str | None
    host: str = ""  # of an engine that the user has chosen, without credentials; empty for this machine's own
    chosen_by: str = ""  # DOCKER_HOST, or a context of the docker command line
    undo: str = ""  # what to type so that it is this machine's own again
    rootless: bool = False
    closed: bool = False  # an engine runs, and its socket is not open to this user
    problem: str = ""
    remedy: str = ""
    can_install: bool = False  # root on Debian or Ubuntu: the first build installs and starts one


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
        """Where builds, downloads and the engine's images are kept."""
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
    def npu(self) -> Seen: ...
    def gpu(self) -> Seen: ...
    def cann(self) -> host.Cann | None: ...
    def opp(self) -> OppState | None: ...
    def index_problem(self) -> str | None:
        """Asks the configured package index for one package; None if it answers. No credential is shown."""
        ...

    def torch_index_problem(self) -> str | None:
        """Asks the PyTorch index for the cpu wheel of torch; None if it is there."""
        ...

    def registry_problem(self, platform: str) -> str | None:
        """Asks, through the engine, the registry that has the base image of a platform of npu; None if it answers."""
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
        return host.memory()

    @property
    def places(self) -> tuple[Path, ...]:
        import docker.errors

        from grstack.engines.connect import connect
        from grstack.engines.docker import store_of

        try:
            return self.paths.build, self.paths.cache, *store_of(connect(timeout=int(PATIENCE)))
        except (docker.errors.DockerException, OSError):
            return self.paths.build, self.paths.cache

    @property
    def python(self) -> tuple[int, int]:
        return sys.version_info[:2]

    def has_python(self, version: str) -> bool:
        return version == f"{self.python[0]}.{self.python[1]}" or shutil.which(f"python{version}") is not None

    def filesystem(self, path: Path) -> int:
        return _existing(path).stat().st_dev

    def free(self, path: Path) -> int:
        return free_bytes(path)

    def engine(self) -> EngineState:
        import docker.errors

        from grstack.engines import docker_cli
        from grstack.engines.connect import JOIN_GROUP, connect, endpoint, is_closed
        from grstack.errors import EngineError

        can_install = host.can_install()
        chosen = endpoint()
        named = network.load().redact(chosen.host) if chosen else ""
        state = EngineState(
            version=None,
            host=named,
            chosen_by=chosen.chosen_by if chosen else "",
            undo=chosen.undo if chosen else "",
            can_install=can_install,
        )
        try:
            found = Daemon.of(connect(timeout=int(PATIENCE)).info())
        except (docker.errors.DockerException, OSError) as error:
            if is_closed(error):
                return replace(state, closed=True, remedy=JOIN_GROUP)
            return replace(state, remedy=docker_cli.install_command())
        state = replace(state, version=found.version, rootless=found.rootless)
        try:
            docker_cli.find_client()
        except EngineError as error:
            return replace(state, problem=error.what, remedy=error.next_command)
        return state

    def npu(self) -> Seen:
        return npu.look(Machine())

    def gpu(self) -> Seen:
        return gpu.look(Machine())

    def cann(self) -> host.Cann | None:
        return host.cann()

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
        # uv is the client that builds use, so proxy, CA bundle and credentials are tried as they will be used.
        argv = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-deps", "--no-cache", "--quiet"]
        argv += ["--reinstall-package", "tqdm", "--python", sys.executable, "tqdm"]
        return self._problem_of(argv)

    def torch_index_problem(self) -> str | None:
        settings = network.load()
        variant = next((v for v in self.versions.variants if v.package == "torch"), None)
        if variant is None or settings.torch_build == "plain":
            return None
        source = ["--torch-backend", "cpu"]
        source = ["--default-index", settings.torch_index_url] if settings.torch_index_url else source
        argv = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-deps", "--no-cache", "--quiet"]
        argv += ["--no-config", "--python-version", self.versions.pythons.default, "--target", "/nonexistent"]
        argv += [*source, f"torch=={variant.version}+{variant.local}"]
        return self._problem_of(argv)

    def _problem_of(self, argv: list[str]) -> str | None:
        settings = network.load()
        env = settings.environment() | {"UV_HTTP_TIMEOUT": "3", "UV_HTTP_RETRIES": "0"}
        try:
            self.runner.capture(argv, env=env, timeout=PATIENCE)
        except CommandFailed as error:
            said = " ".join(line.strip() for line in error.tail if line.strip())
            return settings.redact(said) or f"uv ended with code {error.code}"
        return None

    def registry_problem(self, platform: str) -> str | None:
        import docker.errors

        from grstack.engines.connect import connect
        from grstack.engines.upstream import asked_for

        settings = network.load()
        base = self.versions.bases[self.versions.targets["npu"].platforms[platform].base]
        said = ""
        try:
            client = connect(timeout=int(PATIENCE))
            for reference in asked_for(base, settings):
                try:
                    client.images.get_registry_data(reference)
                    return None
                except docker.errors.APIError as error:
                    said = str(error.explanation or error)
        except (docker.errors.DockerException, OSError) as error:
            return f"not asked, since no engine answers ({type(error).__name__})"
        return settings.redact(said)

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
