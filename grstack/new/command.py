"""`inv new operator NAME`: shows or writes a plan, in the repository's own format."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from grstack.errors import UsageError
from grstack.new.name import Name
from grstack.new.operator import beside, inside
from grstack.new.plan import Plan
from grstack.run import Runner

KINDS = ("operator",)
FORMATTERS = {  # suffix -> the program beside this Python, and its options
    ".cpp": ("clang-format", "-i"),
    ".h": ("clang-format", "-i"),
    ".py": ("ruff", "format", "--quiet"),
}


def new(root: Path, kind: str, name: str, *, outside: str = "", dry_run: bool = False) -> Plan:
    """Raises UsageError for an unknown kind, and for a name that is taken or cannot be one."""
    if kind not in KINDS:
        raise UsageError.unknown("kind", kind, KINDS, next_command="inv new operator segment_sum --dry-run")
    parsed = Name.parse(name)
    plan = beside(root, parsed, Path(outside).expanduser().resolve()) if outside else inside(root, parsed)
    plan.check()
    console = Console(highlight=False, soft_wrap=True)
    if not dry_run:
        plan.write()
        _format(list(plan.files), root, Runner(console))
    _show(plan, console, "would write" if dry_run else "wrote")
    return plan


def _format(files: list[Path], root: Path, runner: Runner) -> None:
    """Where lines break depends on the length of the name."""
    for program, *options in dict.fromkeys(FORMATTERS.values()):
        tool = Path(sys.executable).parent / program
        chosen = [str(file) for file in files if FORMATTERS.get(file.suffix) == (program, *options)]
        config = {"clang-format": f"--style=file:{root / '.clang-format'}", "ruff": f"--config={root}/pyproject.toml"}
        if tool.is_file():
            runner.capture([str(tool), *options, config[program], *chosen])


def _show(plan: Plan, console: Console, verb: str) -> None:
    for file in plan.files:
        console.print(f"{verb} {os.path.relpath(file)}")
    for insertion in plan.insertions:
        where = f"{os.path.relpath(insertion.file)}:{insertion.after + 1}"
        console.print(f"{verb} the line '{insertion.line.strip()}' in {where}", markup=False)
    if plan.next_commands:
        console.print("next:")
    for command in plan.next_commands:
        console.print(f"  {command}", markup=False)
