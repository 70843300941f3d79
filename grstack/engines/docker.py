"""The Docker engine: what is there, through the SDK; runs, through the CLI; docker_build.py has how a step is built."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from grstack.engines import docker_cli, names
from grstack.engines.artefacts import Artefacts
from grstack.engines.base import Inputs, Mount
from grstack.engines.checkouts import Checkouts
from grstack.engines.connect import connect
from grstack.engines.containers import Containers
from grstack.engines.docker_build import BASE_PACKAGES, Builds
from grstack.engines.names import Names
from grstack.engines.upstream import Upstream
from grstack.errors import EngineError
from grstack.launch.access import Access, SecurityContext
from grstack.launch.daemon import Daemon
from grstack.launch.machine import Machine
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.run import CommandFailed, Runner
from grstack.spec import Base

MANIFEST = "/opt/grstack/manifest.json"
TO_ALL = "TINI_KILL_PROCESS_GROUP"  # docker-init gives signals to its child alone else: to bash, not to what that runs


class DockerEngine:
    name = "docker"
    isolates = True

    def __init__(self, paths: Paths, runner: Runner, settings: Settings) -> None:
        self.paths = paths
        self.runner = runner
        self.settings = settings
        self.artefacts = Artefacts(paths)
        self.context = SecurityContext(selinux=Machine().selinux)  # of what is no run with devices

    @cached_property
    def client(self) -> Any:
        return connect(timeout=600)

    @cached_property
    def containers(self) -> Containers:
        return Containers(self.client, self.paths.root)

    @cached_property
    def daemon(self) -> Daemon:
        return Daemon.of(self.client.info())

    @cached_property
    def cli(self) -> Path:
        return docker_cli.find_client()

    def locate(self, plan: Plan, step: Step) -> str:
        match step.kind:
            case Kind.BASE:
                return f"grstack/base:{step.short_key}"
            case Kind.ENVIRONMENT:
                return f"grstack/{plan.target}-environment:{step.short_key}"
            case Kind.BUILDER:
                return f"grstack/{plan.target}-builder:{step.short_key}"
            case Kind.IMAGE:
                return names.exact(plan.plain)
            case Kind.DEVEL:
                return names.exact(plan)
            case Kind.COMPONENT:
                return str(self.artefacts.directory(step))
            case Kind.WHEELS:
                return str(self.paths.wheels)

    def is_built(self, plan: Plan, step: Step) -> bool:
        if step.kind is Kind.COMPONENT:
            return self.artefacts.exists(step)
        if step.kind in (Kind.IMAGE, Kind.DEVEL):
            return bool(self.image_id(plan.plain if step.kind is Kind.IMAGE else plan))
        return self.names.key_of(self.locate(plan, step)) == step.key

    @cached_property
    def names(self) -> Names:
        return Names(self.client, Checkouts(self.paths))

    def image_id(self, plan: Plan) -> str:
        """The id of the image that this plan made, whatever its tag names by now; empty where it is not built."""
        return self.names.image_id(plan)

    def short_name(self, plan: Plan) -> str:
        return names.short(plan)

    def name_result(self, plan: Plan, *, take: bool) -> str:
        self._image_that_is_there(plan)
        return self.names.give(plan, take=take)

    def _image_that_is_there(self, plan: Plan) -> str:
        identity = self.image_id(plan)
        if not identity:
            again = "inv build-image --devel" if plan.devel else "inv build-image"
            raise EngineError(f"{names.exact(plan)} is not there (any more)", next_command=again)
        return identity

    def describe(self, plan: Plan) -> dict[str, str]:
        identity = self.image_id(plan)
        if not identity:
            return {}
        labels = self.client.images.get(identity).labels
        return {"image": identity, "base": plan.base, "base_packages": labels.get(BASE_PACKAGES, "")}

    def places(self) -> tuple[Path, ...]:
        return store_of(self.client)

    @cached_property
    def upstream(self) -> Upstream:
        return Upstream(self.paths, self.runner, self.settings, self.client, self.cli)

    def resolve_base(self, base: Base, platform: str, *, act: bool = True) -> str:
        return self.upstream.resolve(base, act=act)

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        self.builds.build(plan, step, inputs)

    @cached_property
    def builds(self) -> Builds:
        return Builds(
            paths=self.paths,
            runner=self.runner,
            settings=self.settings,
            context=self.context,
            client=self.client,
            cli=self.cli,
            containers=self.containers,
            upstream=self.upstream,
            locate=self.locate,
        )

    def manifest_path(self, plan: Plan) -> str:
        return MANIFEST

    def path_of(self, mount: Mount) -> str:
        return f"/{mount.name}"

    def run(
        self,
        plan: Plan,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        interactive: bool = False,
        apart: str = "",
        access: Access | None = None,
        memory_mib: int = 0,
        private: Mapping[str, str] | None = None,
        saves: bool = False,
    ) -> int:
        given = access or self.context
        name = "-".join(["grstack-run", str(os.getpid()), *([apart] if apart else [])])
        command = docker_cli.run_argv(
            self.cli,
            image=self._image_that_is_there(plan),
            argv=argv,
            volumes=[(m.source, self.path_of(m), m.writable) for m in mounts],
            env={**(env or {}), **({TO_ALL: "1"} if saves else {})},
            inherited=tuple(private or ()),
            network="none" if apart else "host",
            name=name,
            hostname="localhost" if apart else None,  # torchrun asks for the address of the host's name
            interactive=interactive,
            terminal=sys.stdin.isatty(),
            context=replace(given, user=self._user(plan) or given.user),
            memory_mib=memory_mib,
        )
        title = f"docker run {self.locate(plan, plan.image)} {shlex.join(argv)}"
        if interactive:
            return self.runner.replace(command, env=private, title=title)
        try:
            log = self.paths.logs / f"{apart or 'run'}.log"
            pass_on = partial(self.containers.signal, name) if saves else None
            self.runner.stream(command, log=log, env=private, show=True, title=title, pass_on=pass_on)
        except CommandFailed as error:
            if error.code < 0:  # the client was ended, before the command
                self.containers.remove(name)
            return error.code
        except BaseException:
            self.containers.remove(name)
            raise
        return 0

    def _user(self, plan: Plan) -> str:
        """An image whose user is not root runs as who started it, so that what it writes belongs to them."""
        config = self.client.images.get(self._image_that_is_there(plan)).attrs.get("Config") or {}
        if not config.get("User"):
            return ""
        return "0:0" if self.daemon.rootless else f"{os.getuid()}:{os.getgid()}"

    def end(self, name: str) -> None:
        self.containers.end(name)


def store_of(client: Any) -> tuple[Path, ...]:
    """The daemon's own folder, where the daemon runs on this machine."""
    if not str(client.api.base_url).startswith("http+docker://"):  # what the SDK calls a Unix socket
        return ()
    info = client.info()
    if Daemon.of(info).elsewhere:  # Docker Desktop's machine has such a folder too
        return ()
    root = Path(info.get("DockerRootDir") or "/nonexistent")
    return (root,) if root.is_dir() else ()
