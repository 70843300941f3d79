"""The Docker engine: images are inspected, imported and tagged through the SDK, built through the CLI (BuildKit)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from grstack import host
from grstack.engines import docker_cli
from grstack.engines.artefacts import Artefacts, build_environment, stage_sources
from grstack.engines.base import IMAGE_VENV, Inputs, Mount
from grstack.errors import EngineError, StepError
from grstack.keys import IGNORED
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.plan.make import SOURCES
from grstack.run import CommandFailed, Runner

KEY = "grstack.key"


class DockerEngine:
    name = "docker"

    def __init__(self, paths: Paths, runner: Runner) -> None:
        self.paths = paths
        self.runner = runner
        self.artefacts = Artefacts(paths)

    @cached_property
    def client(self) -> Any:
        import docker

        return docker.from_env(timeout=600)

    @cached_property
    def cli(self) -> Path:
        return docker_cli.find_client()

    # What is there -------------------------------------------------------------------------------------------------

    def locate(self, plan: Plan, step: Step) -> str:
        match step.kind:
            case Kind.BASE:
                return f"grstack/base:{step.short_key}"
            case Kind.ENVIRONMENT:
                return f"grstack/{plan.target}-environment:{step.short_key}"
            case Kind.IMAGE:
                return f"grstack/{plan.target}:{plan.platform}"
            case Kind.COMPONENT:
                return str(self.artefacts.directory(step))
            case Kind.WHEELS:
                return str(self.paths.wheels)

    def is_built(self, plan: Plan, step: Step) -> bool:
        if step.kind is Kind.COMPONENT:
            return self.artefacts.exists(step)
        return self._label(self.locate(plan, step)) == step.key

    def image_id(self, plan: Plan) -> str:
        identity: str = self.client.images.get(self.locate(plan, plan.image)).id
        return identity

    def _label(self, reference: str) -> str | None:
        import docker.errors

        try:
            labels: dict[str, str] = self.client.images.get(reference).labels
        except docker.errors.ImageNotFound:
            return None
        return labels.get(KEY)

    def resolve_base(self, reference: str, suite: str) -> str:
        bootstrap = f"bootstrap:{suite}"
        wanted = os.environ.get("GRSTACK_BASE", "auto")
        if wanted == "bootstrap" or (wanted == "auto" and not reference):
            return bootstrap
        import docker.errors

        with contextlib.suppress(docker.errors.ImageNotFound):
            self.client.images.get(reference)
            return reference
        choice = self.paths.build / "base-choice"
        if wanted == "auto" and choice.exists() and choice.read_text() == bootstrap:
            return bootstrap
        try:
            self.runner.capture([str(self.cli), "pull", "--quiet", reference], timeout=600 if wanted != "auto" else 90)
            return reference
        except CommandFailed as error:
            if wanted != "auto":
                raise EngineError(
                    f"the base image {reference} cannot be pulled", next_command="inv doctor, or GRSTACK_BASE=bootstrap"
                ) from error
        self.runner.console.print(
            "no container registry answers: the base is bootstrapped from the distribution's packages"
        )
        choice.parent.mkdir(parents=True, exist_ok=True)
        choice.write_text(bootstrap)
        return bootstrap

    # Building ------------------------------------------------------------------------------------------------------

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        log = self.paths.logs / f"{step.name.replace('/', '-')}.log"
        match step.kind:
            case Kind.BASE if plan.base.startswith("bootstrap:"):
                self._bootstrap(plan, step, log)
            case Kind.BASE:
                self._image(
                    plan, step, self.paths.root / "docker/base/Dockerfile", self.paths.root / "docker/base", log
                )
            case Kind.ENVIRONMENT:
                self._environment(plan, step, inputs, log)
            case Kind.COMPONENT:
                self._component(plan, step, inputs, log)
            case Kind.IMAGE:
                self._final(plan, step, log)
            case Kind.WHEELS:
                raise AssertionError("wheels are fetched, not built")

    def _bootstrap(self, plan: Plan, step: Step, log: Path) -> None:
        host.ensure_commands({"mmdebstrap": "mmdebstrap"}, self.runner, log)
        tar = self._scratch("base") / "base.tar"
        suite = plan.base.split(":", 1)[1]
        self.runner.stream([str(self.paths.root / "docker/base/bootstrap.sh"), suite, str(tar)], log=log)
        reference = self.locate(plan, step)
        self.runner.stream(
            [
                str(self.cli),
                "import",
                f"--change=LABEL {KEY}={step.key}",
                "--change=ENV LANG=C.UTF-8",
                str(tar),
                reference,
            ],
            log=log,
        )
        tar.unlink()
        self._note(step)

    def _environment(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        context = self._scratch("environment")
        wheels = context / "wheels"
        wheels.mkdir()
        for name, path in inputs.wheels.items():
            _link(path, wheels / name)
        (context / "requirements.txt").write_text(inputs.requirements)
        _link(Path(sys.executable).parent / "uv", context / "uv")
        dockerfile = self.paths.root / f"docker/{plan.target}/environment.Dockerfile"
        self._image(plan, step, dockerfile, context, log, BASE=self.locate(plan, plan.step("base")))

    def _final(self, plan: Plan, step: Step, log: Path) -> None:
        context = self._scratch("image")
        for component in plan.install_order:
            assert component.recipe is not None
            place = context / "components" / component.name
            shutil.copytree(self.artefacts.directory(component), place / "artefact", symlinks=True)
            shutil.copy2(self.paths.root / f"recipes/{component.recipe.folder}/install.sh", place / "install.sh")
        for source in SOURCES:
            shutil.copytree(self.paths.root / source, context / "src" / source, ignore=shutil.ignore_patterns(*IGNORED))
        shutil.copytree(self.paths.root / f"docker/{plan.target}", context / "docker")
        (context / "manifest.json").write_text(json.dumps(manifest(plan, self.artefacts), indent=1) + "\n")
        dockerfile = context / "docker/Dockerfile"
        dockerfile.write_text(docker_cli.with_components(dockerfile.read_text(), [s.name for s in plan.install_order]))
        environment = self.locate(plan, plan.step("environment"))
        self._image(plan, step, dockerfile, context, log, ENVIRONMENT=environment)

    def _image(self, plan: Plan, step: Step, dockerfile: Path, context: Path, log: Path, **args: str) -> None:
        args = args or {"BASE": plan.base}
        argv = docker_cli.build_argv(
            self.cli,
            dockerfile=dockerfile,
            context=context,
            tag=self.locate(plan, step),
            args=args,
            labels={KEY: step.key, "grstack.target": plan.target, "grstack.platform": plan.platform},
            secrets=host_secrets(),
        )
        self.runner.stream(argv, log=log, env={"DOCKER_BUILDKIT": "1"})
        self._note(step)
        shutil.rmtree(self.paths.scratch / step.name, ignore_errors=True)

    def _note(self, step: Step) -> None:
        """Remembers that this image is ours: a daemon may hold those of other users too."""
        self.paths.images.mkdir(parents=True, exist_ok=True)
        (self.paths.images / step.key).touch()

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
        argv = docker_cli.run_argv(
            self.cli,
            image=self.locate(plan, plan.step("environment")),
            argv=["bash", f"/source/recipes/{step.recipe.folder}/build.sh"],
            volumes=volumes,
            env=build_environment(step, plan.platform, plan.arch, places),
            network="none",
            name=name,
        )
        try:
            self.runner.stream(argv, log=log)
        except BaseException:
            self._remove_container(name)
            raise
        shutil.rmtree(source, ignore_errors=True)
        self.artefacts.finish(step, out)

    # Running -------------------------------------------------------------------------------------------------------

    def manifest_path(self, plan: Plan) -> str:
        return "/opt/grstack/manifest.json"

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
    ) -> int:
        name = f"grstack-run-{os.getpid()}"
        command = docker_cli.run_argv(
            self.cli,
            image=self.locate(plan, plan.image),
            argv=argv,
            volumes=[(m.source, self.path_of(m), m.writable) for m in mounts],
            env=env or {},
            network="host",
            name=name,
            interactive=interactive,
        )
        if interactive:
            return self.runner.replace(command)
        try:
            self.runner.stream(command, log=self.paths.logs / "run.log", show=True)
        except CommandFailed as error:
            return error.code
        except BaseException:
            self._remove_container(name)
            raise
        return 0

    def _remove_container(self, name: str) -> None:
        with contextlib.suppress(Exception):  # it may be gone already; the first error is the one to show
            self.client.containers.get(name).remove(force=True)

    def _scratch(self, name: str) -> Path:
        place = self.paths.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place


def needed_wheels(step: Step, inputs: Inputs) -> dict[str, Path]:
    """The wheel files that a recipe asked for by package name."""
    assert step.recipe is not None
    wanted = {name.replace("-", "_").lower() for name in step.recipe.wheels}
    chosen = {n: p for n, p in inputs.wheels_all.items() if n.split("-")[0].replace(".", "_").lower() in wanted}
    if len(chosen) < len(wanted):
        raise StepError(
            f"{step.name} reads the wheels {sorted(wanted)}, of which the lock has {sorted(chosen)}",
            next_command="inv lock",
        )
    return chosen


def manifest(plan: Plan, artefacts: Artefacts) -> dict[str, Any]:
    """What the image was made from; written into it as /opt/grstack/manifest.json."""
    return {
        "target": plan.target,
        "platform": plan.platform,
        "emulated": plan.platform == "twin",
        "python": plan.python,
        "arch": plan.arch,
        "key": plan.image.key,
        "steps": {step.name: step.key for step in plan.steps},
        "operators": [s.recipe.operator for s in plan.install_order if s.recipe and s.recipe.operator],
        "files": {step.name: artefacts.manifest(step) for step in plan.install_order},
    }


def host_secrets() -> dict[str, Path]:
    """The host's package sources and CA bundle, for build steps only: they never land in a layer."""
    candidates = {
        "ca": Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")),
        "apt_sources": Path("/etc/apt/sources.list.d/debian.sources"),
    }
    return {name: path for name, path in candidates.items() if path.is_file()}


def _link(source: Path, destination: Path) -> None:
    """A hard link where both are on one file system, else a copy."""
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copy2(source, destination)
