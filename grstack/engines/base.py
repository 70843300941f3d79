"""What an engine must be able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name, parse_wheel_filename

from grstack.launch.access import Access
from grstack.plan import Plan, Step
from grstack.run import Runner
from grstack.spec import Base

IMAGE_VENV = "/opt/grstack/venv"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A host folder that a run sees. `name` is where: `/name` in a container, its own path on the host."""

    source: Path
    name: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the steps read besides the repository: the fetched wheels by file name."""

    wheels: Mapping[str, Path] = field(default_factory=dict)  # installed into the environment
    wheels_all: Mapping[str, Path] = field(default_factory=dict)  # and those that only recipes read
    beside: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)  # of the locks that recipes name
    requirements: str = ""  # pip requirements with hashes, for the environment

    @property
    def names(self) -> list[str]:
        """The file names of all wheels."""
        return sorted({*self.wheels_all, *(name for files in self.beside.values() for name in files)})

    def only(self, names: Set[str]) -> Inputs:
        """With these packages (normalised names) alone to install."""
        return self._chosen(lambda name: name in names)

    def without(self, names: Set[str]) -> Inputs:
        """With all packages to install but these."""
        return self._chosen(lambda name: name not in names)

    def _chosen(self, wanted: Callable[[str], bool]) -> Inputs:
        return replace(
            self,
            wheels={n: p for n, p in self.wheels.items() if wanted(parse_wheel_filename(n)[0])},
            requirements="".join(
                line
                for line in self.requirements.splitlines(keepends=True)
                if wanted(canonicalize_name(line.partition("==")[0]))
            ),
        )


class Engine(Protocol):
    name: str
    isolates: bool  # whether runs cannot see each other's processes, shared memory and ports
    runner: Runner

    def resolve_base(self, base: Base, platform: str, *, act: bool = True) -> str:
        """What the base will be: a digest reference if it can be had, else `bootstrap:<distribution>/<suite>`.

        Without `act` (a dry run) nothing is pulled, asked or written: what is known counts.
        """
        ...

    def places(self) -> tuple[Path, ...]:
        """Where the engine keeps what it builds, as far as this machine can see it; a build needs room there."""
        ...

    def describe(self, plan: Plan) -> dict[str, str]:
        """What the finished result is, for the build report: ids and hashes by name; empty where it is not built."""
        ...

    def is_built(self, plan: Plan, step: Step) -> bool: ...

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        """Carries out one step. A step that is interrupted leaves nothing that `is_built` would accept."""
        ...

    def locate(self, plan: Plan, step: Step) -> str:
        """The name under which a user finds the result of a step."""
        ...

    def name_result(self, plan: Plan, *, take: bool) -> str:
        """Gives the finished result its short name (grstack/npu:twin) and notes that this checkout has built it.

        A short name that stands for another checkout's result is left to it, unless `take`. Returns what the user
        must know: whose name it was; empty where nothing was taken away.
        """
        ...

    def short_name(self, plan: Plan) -> str:
        """What a user types to run the result; `locate` names exactly this plan's."""
        ...

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
        """Runs a command in the finished image, with the devices that `access` gives it; returns its exit code.

        `private`: variables as `env`, whose values may hold credentials: they are on no command line.

        `apart` names one of several that run at once: it has a log of its own and, where `isolates`, a network of its
        own, in which it sees itself only. `memory_mib`: what the kernel gives it at most, page cache included and no
        swap, where `isolates`; 0 for no limit.

        `saves`: the command is given the first Ctrl-C or SIGTERM, and the time that it takes to end; a second ends it
        at once, as the first does otherwise.
        """
        ...

    def path_of(self, mount: Mount) -> str:
        """Where a command run by this engine sees the mount."""
        ...

    def manifest_path(self, plan: Plan) -> str:
        """Where a command in the finished image finds its manifest."""
        ...
