"""No engine: the same plan in a local prefix with virtual environments, where no container can run.

An environment or a prefix counts as built when its marker file holds the step's key; the marker is written last.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from grstack import ascend, host
from grstack.engines import compiler_cache
from grstack.engines.artefacts import Artefacts, build_environment, manifest, needed_wheels, stage_sources
from grstack.engines.base import Inputs, Mount
from grstack.errors import EngineError
from grstack.keys import IGNORED
from grstack.launch.access import Access
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.plan.make import SOURCES
from grstack.run import CommandFailed, Runner, to_its_group
from grstack.spec import GLUON, Base

MARKER = ".complete"
BEGUN = ".grstack"  # in what this engine makes, from the first moment
TRITON = "/opt/grstack/triton"  # where recipes/gluon installs, of which docker/cuda has the variable
HOST_COMMANDS = {
    "g++": "g++",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "make": "make",
    "makeself": "makeself",
    "patch": "patch",
    "readelf": "binutils",
}


class LocalEngine:
    name = "none"
    isolates = False

    def __init__(self, paths: Paths, runner: Runner, settings: Settings) -> None:
        self.paths = paths
        self.runner = runner
        self.settings = settings
        self.artefacts = Artefacts(paths)

    def resolve_base(self, base: Base, platform: str, *, act: bool = True) -> str:
        """This machine: its release and, on platform cann, the toolkit that compiles the operators."""
        name = f"host:{host.codename() or 'unknown'}"
        if platform != "cann":
            return name
        toolkit = host.cann()
        if toolkit is None:
            raise EngineError(
                "platform cann with --engine none needs CANN on this machine, and none is found",
                where="ASCEND_HOME_PATH",
                next_command=f"{ascend.SET_ENV}, or build in a container",
            )
        return f"{name}, CANN {toolkit.version or 'unknown'} at {toolkit.home.resolve()}"

    def places(self) -> tuple[Path, ...]:
        return ()

    def describe(self, plan: Plan) -> dict[str, str]:
        if not self.is_built(plan, plan.image):
            return {}
        return {"image": self.locate(plan, plan.image), "base": plan.base}

    def _place(self, plan: Plan, step: Step) -> Path:
        match step.kind:
            case Kind.COMPONENT:
                return self.artefacts.directory(step)
            case Kind.WHEELS:
                return self.paths.wheels
            case Kind.IMAGE:
                return self.paths.local / f"{plan.target}-{plan.platform}-{step.short_key}"
            case _:
                return self.paths.local / f"{step.name}-{step.short_key}"

    def locate(self, plan: Plan, step: Step) -> str:
        return os.path.relpath(self._place(plan, step), self.paths.root)

    def is_built(self, plan: Plan, step: Step) -> bool:
        if step.kind is Kind.COMPONENT:
            return self.artefacts.exists(step)
        if step.kind is Kind.BASE:
            return all(shutil.which(command) for command in HOST_COMMANDS)
        place = self._place(plan, step)
        return (place / MARKER).is_file() and (place / MARKER).read_text() == _mark(step, place)

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        log = self.paths.logs / f"{step.name.replace('/', '-')}.log"
        match step.kind:
            case Kind.BASE:
                host.ensure_commands(HOST_COMMANDS, self.runner, log, self.settings.connection())
            case Kind.ENVIRONMENT:
                self._environment(plan, step, inputs, log)
            case Kind.COMPONENT:
                self._component(plan, step, inputs, log)
            case Kind.IMAGE:
                self._prefix(plan, step, log)
            case Kind.WHEELS | Kind.BUILDER | Kind.DEVEL:
                raise AssertionError(f"{step.name} is not built here")  # wheels are fetched; the host has the tools

    def _python(self, version: str) -> str:
        if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
            return os.path.realpath(sys.executable)
        found = shutil.which(f"python{version}")
        if not found:
            install = host.install_command([f"python{version}", f"python{version}-venv"])
            raise EngineError(
                f"--engine none needs Python {version} on this machine, and finds {sys.version.split()[0]}",
                next_command=f"{install}, or use the Docker engine",
            )
        return found

    def _environment(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        place = _fresh(self._place(plan, step))
        (place / "requirements.txt").write_text(inputs.requirements)
        links = place / "wheels"
        links.mkdir()
        for name, path in inputs.wheels.items():
            (links / name).symlink_to(path)
        self.runner.stream([self._python(plan.python), "-m", "venv", str(place / "venv")], log=log)
        uv = Path(sys.executable).parent / "uv"
        argv = [str(uv), "pip", "install", "--python", str(place / "venv/bin/python"), "--no-index", "--find-links"]
        argv += [str(links), "--no-deps", "--require-hashes", "--link-mode=copy", "-r", str(place / "requirements.txt")]
        self.runner.stream(argv, log=log, env={"UV_CACHE_DIR": str(self.paths.cache / "uv")})
        leave_mark(step, place)

    def _component(self, plan: Plan, step: Step, inputs: Inputs, log: Path) -> None:
        assert step.recipe is not None
        out = self.artefacts.begin(step)
        source = stage_sources(self.paths.root, step, self.paths.scratch / f"{out.name}-source")
        wheels, deps = self.paths.scratch / f"{out.name}-wheels", self.paths.scratch / f"{out.name}-deps"
        for folder in (wheels, deps):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for name, path in needed_wheels(step, inputs).items():
            (wheels / name).symlink_to(path)
        for need in plan.needed_by(step):
            if need.kind is Kind.COMPONENT:
                (deps / need.name).parent.mkdir(parents=True, exist_ok=True)
                (deps / need.name).symlink_to(self.artefacts.directory(need))
        python = self._place(plan, plan.step("environment")) / "venv/bin/python"
        places = {"source": source, "out": out, "deps": deps, "wheels": wheels, "python": python}
        named = {name: str(path) for name, path in places.items()}
        env = build_environment(step, plan.platform, plan.arch, named, _toolkit(plan))
        folders = [str(python.parent), os.environ["PATH"]]
        if compiled := compiler_cache.prepare(self.paths.cache, self.name):
            folders.insert(0, str(compiled.programs))
            env |= compiled.variables(str(compiled.store), tempfile.gettempdir())
        env["PATH"] = os.pathsep.join(folders)
        self.runner.stream(["bash", str(source / step.recipe.script(self.paths.root, "build.sh"))], log=log, env=env)
        for folder in (source, wheels, deps):
            shutil.rmtree(folder, ignore_errors=True)
        self.artefacts.finish(step, out)

    def _prefix(self, plan: Plan, step: Step, log: Path) -> None:
        import json

        prefix = _fresh(self._place(plan, step))
        env = {
            **self.environment(plan),
            "GRSTACK_ROOT": str(prefix),
            "GRSTACK_PYTHON": str(self._place(plan, plan.step("environment")) / "venv/bin/python"),
            "ASCEND_HOME": f"{prefix}{ascend.HOME}",
            "GRSTACK_TOOLKIT": _toolkit(plan),
            # component wheels go beside the shared environment, which stays as it was
            "PIP_TARGET": str(prefix / "site-packages"),
            "UV_TARGET": str(prefix / "site-packages"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        }
        for component in plan.install_order:
            assert component.recipe is not None
            script = self.paths.root / component.recipe.script(self.paths.root, "install.sh")
            artefact = {"GRSTACK_ARTEFACT": str(self.artefacts.directory(component))}
            self.runner.stream(["bash", str(script)], log=log, env={**env, **artefact})
        for source in SOURCES:
            shutil.copytree(self.paths.root / source, prefix / "src" / source, ignore=shutil.ignore_patterns(*IGNORED))
        (prefix / "manifest.json").write_text(json.dumps(manifest(plan, self.artefacts), indent=1) + "\n")
        leave_mark(step, prefix)

    def environment(self, plan: Plan) -> dict[str, str]:
        """The variables that an image sets with ENV."""
        prefix = self._place(plan, plan.image)
        home = _toolkit(plan) or f"{prefix}{ascend.HOME}"
        venv = self._place(plan, plan.step("environment")) / "venv"
        compiles = any(step.recipe is not None and step.recipe.beside == GLUON for step in plan.install_order)
        return {
            **({"GR_OPS_TRITON": f"{prefix}{TRITON}"} if compiles else {}),
            **ascend.variables(home),
            "LD_LIBRARY_PATH": f"{home}/lib64",
            "PYTHONPATH": f"{prefix}/site-packages:{prefix}/src",
            "PATH": os.pathsep.join((*ascend.binaries(home), f"{venv}/bin", os.environ["PATH"])),
            "VIRTUAL_ENV": str(venv),
            **(_on_cann(plan, home, prefix) if _toolkit(plan) else {}),
        }

    def name_result(self, plan: Plan, *, take: bool) -> str:
        """A prefix is this checkout's own: its path is its name."""
        return ""

    def short_name(self, plan: Plan) -> str:
        return self.locate(plan, plan.image)

    def manifest_path(self, plan: Plan) -> str:
        return str(self._place(plan, plan.image) / "manifest.json")

    def path_of(self, mount: Mount) -> str:
        return str(mount.source)

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
        visible = access.process_env if access else {}
        own, given = self.environment(plan), {**(private or {}), **(env or {})}
        if "PYTHONPATH" in given:  # in an image the components are in the environment
            given["PYTHONPATH"] = os.pathsep.join((given["PYTHONPATH"], own["PYTHONPATH"]))
        variables = {**own, **visible, **given}
        if _toolkit(plan):  # what its set_env.sh sets comes first, as in an image
            argv = ["bash", str(self.paths.root / "docker/npu/entrypoint.sh"), *argv]
        if interactive:
            return self.runner.replace(argv, env=variables)
        try:
            log = self.paths.logs / f"{apart or 'run'}.log"
            pass_on = to_its_group if saves else None
            self.runner.stream(argv, log=log, env=variables, show=True, pass_on=pass_on)
        except CommandFailed as error:
            return error.code
        return 0


def _toolkit(plan: Plan) -> str:
    """Where this machine has CANN, which compiles and runs the operators; empty where the plan builds a home itself."""
    found = host.cann() if plan.platform == "cann" else None
    return os.path.abspath(found.home) if found else ""


def _on_cann(plan: Plan, home: str, prefix: Path) -> dict[str, str]:
    """What differs with a toolkit that is not ours: our operators stand beside it, its driver and this machine's
    libraries behind."""
    names = [step.recipe.operator for step in plan.components if step.recipe and step.recipe.operator]
    vendors = [f"{prefix}{ascend.HOME}/opp/vendors/mxrec_{name}" for name in names]
    libraries = (f"{home}/lib64", *ascend.DRIVER_LIBRARIES)
    places = {ascend.CUSTOM: vendors, "LD_LIBRARY_PATH": libraries}
    inherited = {name: os.environ.get(name, "").split(os.pathsep) for name in places}
    return {name: os.pathsep.join(filter(None, (*own, *inherited[name]))) for name, own in places.items()}


def leave_mark(step: Step, place: Path) -> None:
    (place / MARKER).write_text(_mark(step, place))


def _mark(step: Step, place: Path) -> str:
    """An environment's commands name the place where it was made: in a moved checkout it is made anew."""
    return f"{step.key} {place}"


def is_ours(place: Path) -> bool:
    """Whether this engine has made the environment or prefix."""
    return (place / BEGUN).is_file() or (place / MARKER).is_file()


def _fresh(place: Path) -> Path:
    """An empty marked folder; an unfinished one of ours goes. Raises EngineError for a folder of somebody else."""
    if os.path.lexists(place):
        if place.is_symlink() or not (is_ours(place) or not any(place.iterdir())):
            raise EngineError(
                f"{place} stands where this build is to go, and was not made by it",
                next_command=f"mv {place} ELSEWHERE, and the same again",
            )
        shutil.rmtree(place)
    place.mkdir(parents=True)
    (place / BEGUN).touch()
    return place
