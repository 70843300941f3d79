"""`inv lint`: the linters, each over the tracked files that it reads. pre-commit and the gate run the same table."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grstack.run import CommandFailed, Runner

BIN = Path(sys.executable).parent
NOT_OURS = ("build", "data", ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis")


@dataclass(frozen=True, kw_only=True)
class Linter:
    """check: the command, which changes nothing. fix: the one that repairs. files: patterns of what it is given; where
    there are none, it finds its files itself. setting: the file that says what it asks for.
    """

    name: str
    check: tuple[str, ...]
    setting: str
    fix: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


LINTERS = (
    Linter(name="ruff", check=("ruff", "check"), fix=("ruff", "check", "--fix"), setting="pyproject.toml"),
    Linter(name="ruff format", check=("ruff", "format", "--check"), fix=("ruff", "format"), setting="pyproject.toml"),
    Linter(name="mypy", check=("mypy",), setting="pyproject.toml"),
    Linter(
        name="clang-format",
        check=("clang-format", "--dry-run", "-Werror"),
        fix=("clang-format", "-i"),
        files=("*.cpp", "*.h", "*.inl"),
        setting=".clang-format",
    ),
    Linter(
        name="shellcheck",
        check=("shellcheck", "-x"),
        files=("*.sh", "*.sbatch", ".ci/run", "msprof"),
        setting=".shellcheckrc",
    ),
    Linter(name="hadolint", check=("hadolint",), files=("Dockerfile", "*.Dockerfile"), setting=".hadolint.yaml"),
)


def run(root: Path, runner: Runner, *, fix: bool = False) -> list[str]:
    """Runs all of them, also after a failure, and returns the names of those that are not content."""
    everything = sources(root, runner)
    failed = []
    for linter in LINTERS:
        chosen = matching(everything, linter.files)
        if linter.files and not chosen:
            continue
        command = linter.fix if fix and linter.fix else linter.check
        argv = [str(BIN / command[0]), *command[1:], *chosen]
        title = " ".join(command) + (f"   ({len(chosen)} files)" if chosen else "")
        try:
            runner.stream(argv, log=root / "build/logs/lint.log", cwd=root, show=True, title=title)
        except CommandFailed:
            failed.append(linter.name)
    return failed


def advise(failed: Sequence[str], console: Console) -> None:
    """What a reader does next about linters that failed."""
    settings = {linter.name: linter.setting for linter in LINTERS}
    repaired = {linter.name for linter in LINTERS if linter.fix}
    for name in failed:
        console.print(f"[red]failed: {name}[/red] (settings: {settings[name]})")
    if repaired & set(failed):
        console.print("  next:  inv lint --fix")


def sources(root: Path, runner: Runner) -> list[str]:
    """The files of a checkout, tracked or new, or of an unpacked archive without what was built or fetched; by name."""
    try:
        listed = runner.capture(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"])
        return sorted(name for name in listed.splitlines() if (root / name).is_file())
    except CommandFailed:
        return sorted(_walk(root))


def _walk(root: Path) -> list[str]:
    found = []
    for place, folders, files in os.walk(root):
        inside = Path(place).relative_to(root)
        folders[:] = [name for name in folders if not _matches(name, NOT_OURS)]
        found += [str(inside / name) for name in files]
    return found


def matching(files: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Those whose whole path, or name, is like one of the patterns."""
    return [file for file in files if _matches(file, patterns) or _matches(Path(file).name, patterns)]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
