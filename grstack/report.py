"""What was built, from what, how long it took: the summary for people and build-report.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grstack.files import write_atomically
from grstack.plan import Plan, Step


@dataclass(kw_only=True)
class StepResult:
    name: str
    key: str
    status: str  # built, verified (wheels), kept, failed
    seconds: float
    result: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class BuildReport:
    target: str
    platform: str
    emulated: bool
    python: str
    arch: str
    base: str
    engine: str
    seconds: float = 0.0
    steps: list[StepResult] = field(default_factory=list)
    result: dict[str, str] = field(default_factory=dict)  # image id, base digest, hash of the base's package list
    wheels: list[str] = field(default_factory=list)  # file names as locked; empty where none was needed

    @property
    def built_anything(self) -> bool:
        return any(step.status != "kept" for step in self.steps)

    @classmethod
    def of(cls, plan: Plan, engine: str) -> BuildReport:
        return cls(
            target=plan.target,
            platform=plan.platform,
            emulated=plan.platform == "twin",
            python=plan.python,
            arch=plan.arch,
            base=plan.base,
            engine=engine,
        )

    def write(self, path: Path) -> None:
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n")

    def show(self, console: Console) -> None:
        emulated = "  (emulated NPU)" if self.emulated else ""
        table = Table(title=f"{self.target} on {self.platform}{emulated}, {self.seconds:.1f} s", title_justify="left")
        for column in ("step", "status", "time", "key", "result"):
            table.add_column(column, justify="right" if column == "time" else "left", overflow="fold")
        for step in self.steps:
            table.add_row(step.name, step.status, f"{step.seconds:.1f} s", step.key[:12], step.result)
        console.print(table)
        for name, value in self.result.items():
            console.print(f"  {name}: {value}", highlight=False)
        packages = [(n, h) for s in self.steps for n, h in s.files.items() if n.endswith((".run", ".whl"))]
        for name, digest in packages:
            console.print(f"  {digest[:16]}  {name}", highlight=False)


def result_of(step: Step, status: str, seconds: float, result: str, files: dict[str, str]) -> StepResult:
    return StepResult(
        name=step.name, key=step.key, status=status, seconds=round(seconds, 2), result=result, files=files
    )
