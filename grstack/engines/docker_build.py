"""How the Docker engine builds each step: images by BuildKit, components by their recipes in a container."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from grstack import keys, labels, layers
from grstack.engines import bootstrap, compiler_cache, docker_cli, names
from grstack.engines.artefacts import (
    Artefacts,
    build_environment,
    constraints,
    manifest,
    needed_wheels,
    stage_sources,
)
from grstack.engines.base import IMAGE_VENV, Inputs
from grstack.engines.bootstrap import host_secrets
from grstack.engines.containers import Containers
from grstack.engines.names import KEY
from grstack.engines.upstream import Upstream
from grstack.keys import IGNORED
from grstack.launch.access import SecurityContext
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.plan.make import DEVEL, ENVIRONMENT, SOURCES, devel_packages
from grstack.run import Runner

PACKAGES = (  # Debian and Ubuntu have dpkg, openEuler has rpm
    "if command -v dpkg-query > /dev/null;"
    " then dpkg-query --show --showformat='${Package}:${Architecture} ${Version}\\n';"
    " else rpm -qa --queryformat '%{NAME}:%{ARCH} %{VERSION}-%{RELEASE}\\n'; fi"
)
BASE_PACKAGES = "grstack.base-packages"  # hash of the distribution's packages and their versions
CACHED_COMPILERS = "/ccache/bin"


class Builds:
    """`locate` names the result of a step."""

    def __init__(
        self,
        *,
        paths: Paths,
        runner: Runner,
        settings: Settings,
        context: SecurityContext,
        client: Any,
        cli: Path,
        containers: Containers,
        upstream: Upstream,
        locate: Callable[[Plan, Step], str],
    ) -> None:
        self.paths = paths
        self.runner = runner
        self.settings = settings
        self.context = context
        self.client = client
        self.cli = cli
        self.containers = containers
        self.upstream = upstream
        self.locate = locate
        self.artefacts = Artefacts(paths)
        self._one_at_a_time = threading.Lock()  # several steps may be built at once

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        log = self.paths.logs / f"{step.name.replace('/', '-')}.log"
        with self._one_at_a_time:
            _ = self.leftovers_removed
        match step.kind:
            case Kind.BASE if plan.base.startswith("bootstrap:"):
                self._bootstrap(plan, step, log)
            case Kind.BASE:
                context = self.paths.root / "docker/base"
                self._image(plan, step, context / "Dockerfile", context, log, BASE=self.upstream.local_name(plan.base))
            case Kind.ENVIRONMENT:
                self._environment(plan, step, inputs, log)
            case Kind.BUILDER:
                self._builder(plan, step, log)
            case Kind.COMPONENT:
                self._component(plan, step, inputs, log)
            case Kind.IMAGE:
                self._final(plan.plain, step, log)
            case Kind.DEVEL:
                self._devel(plan, step, inputs, log)
            case Kind.WHEELS:
                raise AssertionError("wheels are fetched, not built")

    def _bootstrap(self, plan: Plan, step: Step, log: Path) -> None:
        release = plan.base.removeprefix("bootstrap:")
        bootstrap.ensure_tools(release, self.runner, log, self.settings)
        scratch = self._scratch("base")
        tar = scratch / "base.tar"
        script = self.paths.root / "docker/base/bootstrap.sh"
        bootstrap.make_root(script, release, tar, self.runner, log, self.settings)
        change = [f"--change=LABEL {KEY}={step.key}", "--change=ENV LANG=C.UTF-8"]
        self.runner.stream([str(self.cli), "import", *change, str(tar), self.locate(plan, step)], log=log)
        tar.unlink()
        note_image(self.paths, step.key)

    def _environment(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        context = self._scratch("environment")
        self._packages(inputs.without(self._devel_packages(plan)), context)
        scripts = self.paths.root / ENVIRONMENT
        for name in ("install.sh", "runtime.sh"):
            shutil.copy2(scripts / name, context / name)
        keep = self.paths.root / f"docker/{plan.target}/keep.txt"
        args = {"BASE": self.locate(plan, plan.step("base")), "PYTHON": plan.python}
        args |= {"KEEP": " ".join(keep.read_text().split())} if keep.exists() else {}
        args |= {"SYSTEM": "whole"} if plan.whole else {}
        self._image(plan, step, scripts / "Dockerfile", context, log, labels=None, **args)

    def _packages(self, inputs: Inputs, context: Path) -> None:
        """What install.sh reads, but for itself."""
        wheels = context / "wheels"
        wheels.mkdir(parents=True)
        for name, path in inputs.wheels.items():
            _link(path, wheels / name)
        (context / "requirements.txt").write_text(inputs.requirements)
        _link(Path(sys.executable).parent / "uv", context / "uv")

    def _devel_packages(self, plan: Plan) -> frozenset[str]:
        listing = self.paths.root / devel_packages(plan.target)
        return frozenset(listing.read_text().split()) if listing.exists() and not plan.whole else frozenset()

    def _builder(self, plan: Plan, step: Step, log: Path) -> None:
        context = self._scratch("builder")
        dockerfile = self.paths.root / ENVIRONMENT / "builder.Dockerfile"
        base, environment = (self.locate(plan, plan.step(name)) for name in ("base", "environment"))
        self._image(plan, step, dockerfile, context, log, BASE=base, ENVIRONMENT=environment)

    def _devel(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        context = self._scratch("devel")
        self._packages(inputs.only(self._devel_packages(plan)), context / "packages")
        shutil.copy2(self.paths.root / ENVIRONMENT / "install.sh", context / "packages/install.sh")
        for source in SOURCES:
            ignore = shutil.ignore_patterns(*keys.LEFTOVERS)
            shutil.copytree(self.paths.root / source, context / "src" / source, ignore=ignore)
        dockerfile = self.paths.root / DEVEL / "Dockerfile"
        base = "scratch" if plan.whole else self.locate(plan, plan.step("base"))
        image = self.locate(plan, plan.step("image"))
        marks = {**self._origin(plan), f"{labels.PREFIX}.title": f"grstack/{plan.target} (devel)"}
        args = {"BASE": base, "IMAGE": image, "PYTHON": plan.python}
        self._image(plan, step, dockerfile, context, log, labels=marks, **args)
        self._check_layers(plan, dockerfile.read_text(), f"{DEVEL}/Dockerfile", below=image)

    def _final(self, plan: Plan, step: Step, log: Path) -> None:
        context = self._scratch("image")
        installed: dict[str, int | None] = {}
        for component in plan.install_order:
            assert component.recipe is not None
            installed[component.name] = component.recipe.layer_mb
            place = context / "components" / component.name
            shutil.copytree(self.artefacts.directory(component), place / "artefact", symlinks=True)
            script = component.recipe.script(self.paths.root, "install.sh")
            shutil.copy2(self.paths.root / script, place / "install.sh")
        for source in SOURCES:
            shutil.copytree(self.paths.root / source, context / "src" / source, ignore=shutil.ignore_patterns(*IGNORED))
        shutil.copytree(self.paths.root / f"docker/{plan.target}", context / "docker")
        packages = self._base_packages(plan)
        content = manifest(plan, self.artefacts, packages, self._devel_packages(plan))
        (context / "manifest.json").write_text(json.dumps(content, indent=1) + "\n")
        (context / "constraints.txt").write_text(constraints(plan))
        dockerfile = context / "docker/Dockerfile"
        dockerfile.write_text(docker_cli.with_components(dockerfile.read_text(), installed))
        environment = self.locate(plan, plan.step("environment"))
        marks = {BASE_PACKAGES: keys.combine(packages.items()), **self._origin(plan)}
        instructions = dockerfile.read_text()
        args = {"ENVIRONMENT": environment, **({"ASCEND_HOME": plan.home} if plan.home else {})}
        self._image(plan, step, dockerfile, context, log, labels=marks, **args)
        self._check_layers(plan, instructions, f"docker/{plan.target}/Dockerfile", below=environment)

    def _origin(self, plan: Plan) -> dict[str, str]:
        return {**labels.of_plan(plan), **labels.of_checkout(self.paths.root)}

    def _check_layers(self, plan: Plan, dockerfile: str, where: str, *, below: str) -> None:
        """`below`: the image that it is made FROM, whose layers have the limits above that line."""
        name = names.exact(plan)
        try:
            history, lower = self._history(name), self._history(below)
            bottom = self._history(self.locate(plan, plan.step("base"))) if plan.whole else []
            layers.check(history[: len(history) - len(lower)], dockerfile, where)
            layers.check_below(lower[: len(lower) - len(bottom)], dockerfile, where)
        except BaseException:
            self.client.images.remove(name)  # it does not count as built
            raise

    def _history(self, image: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.client.images.get(image).history()
        return found

    def _base_packages(self, plan: Plan) -> dict[str, str]:
        """Package -> version of the distribution's packages: what a mirror gave on the day of the bootstrap."""
        argv = docker_cli.run_argv(
            self.cli,
            image=self.locate(plan, plan.step("base")),
            argv=["sh", "-c", PACKAGES],
            volumes=[],
            env={},
            network="none",
        )
        lines = self.runner.capture(argv).splitlines()
        return dict(sorted(line.split(" ", 1) for line in lines if " " in line))

    def _image(
        self,
        plan: Plan,
        step: Step,
        dockerfile: Path,
        context: Path,
        log: Path,
        *,
        labels: Mapping[str, str] | None = None,
        **args: str,
    ) -> None:
        proxies = {n: v for n, v in self.settings.connection().items() if n.lower().endswith("_proxy")}
        reads_host = step.kind is Kind.BASE
        secrets = host_secrets(self._scratch("secrets"), self.runner, self.settings) if reads_host else {}
        argv = docker_cli.build_argv(
            self.cli,
            dockerfile=dockerfile,
            context=context,
            tag=self.locate(plan, step),
            args=args,
            labels={KEY: step.key, "grstack.target": plan.target, "grstack.platform": plan.platform, **(labels or {})},
            secrets=secrets,
            from_environment=tuple(proxies),
        )
        title = f"docker build {self.locate(plan, step)}"
        self.runner.stream(argv, log=log, env={"DOCKER_BUILDKIT": "1", **proxies}, title=title)
        note_image(self.paths, step.key)
        shutil.rmtree(self.paths.scratch / step.name, ignore_errors=True)

    @cached_property
    def leftovers_removed(self) -> int:
        """Ends the build containers of this checkout that a killed run left; asked once, under the build's lock."""
        return self.containers.remove_leftovers()

    def _component(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        assert step.recipe is not None
        out = self.artefacts.begin(step)
        source = stage_sources(self.paths.root, step, self.paths.scratch / f"{out.name}-source")
        volumes = [(source, "/source", False), (out, "/out", True)]
        volumes += [(p, f"/wheels/{n}", False) for n, p in needed_wheels(step, inputs).items()]
        for need in plan.needed_by(step):
            if need.kind is Kind.COMPONENT:
                volumes.append((self.artefacts.directory(need), f"/deps/{need.name}", False))
        places = {"source": "/source", "out": "/out", "deps": "/deps", "wheels": "/wheels"}
        places["python"] = f"{IMAGE_VENV}/bin/python"
        name = f"grstack-{out.name}-{os.getpid()}"
        script = step.recipe.script(self.paths.root, "build.sh")
        env = build_environment(step, plan.platform, plan.arch, places, plan.toolkit)
        command = ["bash", f"/source/{script}"]
        if compiled := compiler_cache.prepare(self.paths.cache, "docker"):
            volumes += [(compiled.programs, CACHED_COMPILERS, False), (compiled.store, "/ccache/store", True)]
            env |= compiled.variables("/ccache/store", "/tmp")
            command = ["bash", "-c", f'PATH={CACHED_COMPILERS}:$PATH exec "$@"', "bash", *command]
        argv = docker_cli.run_argv(
            self.cli,
            image=self.locate(plan, plan.builder),
            argv=command,
            volumes=volumes,
            env=env,
            network="none",
            context=self.context,
            name=name,
            labels=self.containers.labels,
        )
        try:
            title = f"docker run {self.locate(plan, plan.builder)} {script} for {step.name}"
            self.runner.stream(argv, log=log, title=title)
        except BaseException:
            self.containers.remove(name)
            raise
        shutil.rmtree(source, ignore_errors=True)
        self.artefacts.finish(step, out)

    def _scratch(self, name: str) -> Path:
        place = self.paths.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place


def note_image(paths: Paths, key: str) -> None:
    """Remembers that the image of this key is ours: a daemon may hold those of other users too."""
    paths.images.mkdir(parents=True, exist_ok=True)
    (paths.images / key).touch()


def _link(source: Path, destination: Path) -> None:
    """A hard link where both are on one file system, else a copy."""
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copy2(source, destination)
