"""One command's choices resolved once: spec, lock, engine and plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

from rich.console import Console

from grstack import host, inputs, locks, network, operators, spec
from grstack.choices import Choices
from grstack.engines import Engine, Inputs, find_engine
from grstack.errors import UnsupportedError, UsageError
from grstack.locks import Build, Lock
from grstack.paths import Paths
from grstack.plan import Plan, make_plan
from grstack.recipes import load_all
from grstack.run import Runner
from grstack.spec import Base, Platform, Target, Versions


class Session:
    def __init__(self, root: Path, choices: Choices, console: Console) -> None:
        self.paths = Paths.of(root)
        self.choices = choices
        self.console = console
        self.settings = network.load()
        self.runner = Runner(console, self.settings)

    @cached_property
    def versions(self) -> Versions:
        return spec.load(self.paths.root / "versions.yaml")

    @cached_property
    def target(self) -> Target:
        if self.choices.target not in self.versions.targets:
            platforms = {name for target in self.versions.targets.values() for name in target.platforms}
            meant = f"--platform {self.choices.target}" if self.choices.target in platforms else ""
            raise UsageError.unknown(
                "target",
                self.choices.target,
                list(self.versions.targets),
                next_command=f"the same with {meant} in place of --target" if meant else "",
            )
        return self.versions.for_cann(self.choices.target, self.cann)

    @cached_property
    def cann(self) -> str:
        """The release of CANN in the chosen base, where it is not the one of the target's platforms."""
        if not self.choices.base:
            return ""
        known = self.versions.targets[self.choices.target].platforms.get("cann")
        if known is None or self.choices.platform != "cann":
            raise UsageError(
                f"--base {self.choices.base} is a choice of platform cann",
                next_command=f"inv build-image --platform cann --base {self.choices.base}",
            )
        usable = {name: base.cann for name, base in self.versions.bases.items() if base.cann}
        if self.choices.base not in usable:
            raise UsageError.unknown("base", self.choices.base, usable)
        found = usable[self.choices.base]
        return found if found != known.cann else ""

    @cached_property
    def platform(self) -> str:
        """`twin` or `cann` behind target npu; the target's own name for the others."""
        if not self.target.platforms:
            if self.choices.platform not in ("", self.choices.target):
                raise UsageError.unknown("platform", self.choices.platform, [self.choices.target])
            return self.choices.target
        platform = self.choices.platform or "twin"
        if platform not in self.target.platforms:
            meant = f"--target {platform}" if platform in self.versions.targets else ""
            raise UsageError.unknown(
                "platform",
                platform,
                list(self.target.platforms),
                next_command=f"the same with {meant} in place of --platform" if meant else "",
            )
        return platform

    @cached_property
    def base(self) -> Base:
        name = self.choices.base or self._other_base or self._place.base
        assert name is not None  # the spec's own check
        return self.versions.bases[name]

    @property
    def _place(self) -> Target | Platform:
        """What names the bases: the platform, or the target that has none."""
        return self.target.platforms[self.platform] if self.target.platforms else self.target

    @property
    def _other_base(self) -> str:
        """The base of a Python that the usual one does not have."""
        return self._place.other_pythons.get(self.choices.python, "") if self.choices.engine != "none" else ""

    @property
    def _tag(self) -> str:
        """What the image is called, where it is not the platform's own."""
        return self.choices.base or (f"{self.platform}-py{self.choices.python}" if self._other_base else "")

    @cached_property
    def lock(self) -> Lock:
        default = self.versions.pythons.default
        python = self.choices.python or (default if default in self.base.pythons else self.base.pythons[0])
        arch = host.arch()
        if python not in self.versions.pythons.supported:
            raise UsageError.unknown("Python", python, self.versions.pythons.supported)
        if arch not in self.versions.architectures:
            raise UsageError.unknown("architecture", arch, self.versions.architectures)
        if python not in self.base.pythons and self.choices.engine != "none":
            raise UnsupportedError(
                f"the base image {self.base.reference} has Python {', '.join(self.base.pythons)}, not {python}",
                where="versions.yaml, bases",
                next_command=f"leave --python {python} out, or use this machine's own: --engine none",
            )
        reason = self.versions.refusal(self.choices.target, python, arch)
        if reason:
            raise UnsupportedError(
                f"{self.choices.target} on Python {python}, {arch} cannot exist: {reason}",
                where="versions.yaml, unsupported",
                next_command="inv build-image --target npu",
            )
        return locks.current(self.paths.root, self.versions, self.choices.target, python, arch, self.cann)

    @cached_property
    def beside(self) -> tuple[Lock, ...]:
        """The other locks whose wheels components are made of."""
        found = load_all(self.paths.root, self.platform, self.target.components, {})
        machine = (self.lock.python, self.lock.arch)
        names = dict.fromkeys(recipe.beside for recipe in found if recipe.beside)
        return tuple(locks.current(self.paths.root, self.versions, name, *machine) for name in names)

    @cached_property
    def build(self) -> Build:
        """Which build of torch is installed: the smaller cpu one where the PyTorch index can be reached."""
        from grstack import fetch

        return fetch.choose_build(self.lock, self.paths.wheels, self.settings, console=self.console)

    @cached_property
    def operators(self) -> dict[str, tuple[str, ...]]:
        """The operators of versions.yaml with their SoCs, which must be those of their definitions."""
        socs = {name: operator.socs for name, operator in self.versions.operators.items()}
        operators.check(self.paths.root, socs)
        return socs

    @cached_property
    def engine(self) -> Engine:
        self.check_choices()
        return find_engine(self.choices.engine, self.paths, self.runner, self.settings)

    @cached_property
    def plan(self) -> Plan:
        base = self.engine.resolve_base(self.base, self.platform)
        return self._plan(base, self.build)

    def plan_to_show(self, *, with_engine: bool) -> Plan:
        """The plan for a dry run: nothing is pulled, asked, started or written. What is known counts."""
        from grstack import fetch

        self.check_choices()
        known = self.engine.resolve_base(self.base, self.platform, act=False) if with_engine else self.base.reference
        return self._plan(known, fetch.known_build(self.lock, self.paths.wheels, self.settings))

    def check_choices(self) -> None:
        """Refuses what cannot be built before an engine is started, or a base pulled, for it."""
        _ = self.target, self.platform, self.lock
        if not (self.paths.root / "docker" / self.choices.target).is_dir():
            images = sorted(name for name in self.versions.targets if (self.paths.root / "docker" / name).is_dir())
            raise UnsupportedError(
                f"target '{self.choices.target}' is locked, but has no image yet; images: {', '.join(images)}",
                where="docker/",
                next_command=f"inv build-image --target {images[0]}",
            )
        _ = self.beside

    def _plan(self, base: str, build: Build) -> Plan:
        return make_plan(
            self.paths.root,
            lock=self.lock,
            platform=self.platform,
            base=base,
            build=build,
            components=self.target.components,
            operators=self.operators,
            tag=self._tag,
            home=self.base.home or "",
            devel=self.choices.devel,
        )

    @property
    def fetch(self) -> Callable[[], Inputs]:
        """What a step that reads wheels calls: downloads what the locks name, or finds it in the cache."""
        return partial(
            inputs.fetch, self.lock, self.build, self.paths.wheels, self.settings, self.console, beside=self.beside
        )
