"""An engine without containers or network, for tests of everything above it. It keeps the same promises: a step that
fails or is interrupted is not built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from grstack.engines.base import Inputs, Mount
from grstack.launch.access import Access
from grstack.plan import Plan, Step
from grstack.run import Runner
from grstack.spec import Base


class FakeEngine:
    name = "fake"
    isolates = True

    def __init__(self, *, fail: Callable[[Step], BaseException | None] = lambda step: None, exit_code: int = 0) -> None:
        self.fail = fail
        self.runner = Runner(Console(quiet=True))
        self.exit_code = exit_code
        self.built: dict[str, str] = {}
        self.history: list[str] = []
        self.runs: list[tuple[str, ...]] = []
        self.accesses: list[Access | None] = []  # of each run
        self.private: list[dict[str, str]] = []
        self.mounts: list[tuple[Mount, ...]] = []
        self.named: list[tuple[str, bool]] = []  # short name, whether it was to be taken
        self.said = ""  # what naming answers

    def resolve_base(self, base: Base, platform: str, *, act: bool = True) -> str:
        return base.reference

    def places(self) -> tuple[Path, ...]:
        return ()

    def describe(self, plan: Plan) -> dict[str, str]:
        return {"image": self.locate(plan, plan.image)} if self.is_built(plan, plan.image) else {}

    def locate(self, plan: Plan, step: Step) -> str:
        return f"fake/{step.name}:{step.short_key}"

    def is_built(self, plan: Plan, step: Step) -> bool:
        return self.built.get(step.name) == step.key

    def build(self, plan: Plan, step: Step, inputs: Inputs) -> None:
        self.history.append(step.name)
        for need in plan.needed_by(step):
            if need.name != "wheels" and not self.is_built(plan, need):
                raise AssertionError(f"{step.name} was built before {need.name}")
        error = self.fail(step)
        if error is not None:
            raise error
        self.built[step.name] = step.key

    def short_name(self, plan: Plan) -> str:
        return f"fake/{plan.target}:{plan.platform}"

    def name_result(self, plan: Plan, *, take: bool) -> str:
        if not self.is_built(plan, plan.image):
            raise AssertionError("a result is named that is not built")
        self.named.append((self.short_name(plan), take))
        return self.said

    def manifest_path(self, plan: Plan) -> str:
        return "/manifest.json"

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
        self.runs.append(tuple(argv))
        self.private.append(dict(private or {}))
        self.mounts.append(tuple(mounts))
        self.accesses.append(access)
        return self.exit_code
