"""Processes are started in two files: what does work is echoed, logged, redacted and ended; what asks is quiet."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOORS = ["grstack/ask.py", "grstack/run.py"]
STARTERS = {"subprocess", "pty", "multiprocessing"}
OS_STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}


def starts(file: Path) -> list[str]:
    """Lines that import a module which starts processes, or call os's own ways."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").split(".")[0]}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            names = {"subprocess"} if node.attr in OS_STARTERS or node.attr.startswith(("exec", "spawn")) else set()
        else:
            continue
        if names & STARTERS:
            found.append(f"{file.name}:{node.lineno}")
    return found


def test_only_the_doors_start_processes() -> None:
    new = ROOT / "grstack/new"  # its skeletons and their tests are not the tool
    tool = [file for file in sorted((ROOT / "grstack").rglob("*.py")) if new not in file.parents or file.parent == new]
    files = [*tool, ROOT / "tasks.py"]
    assert len(files) > 60
    found = {str(file.relative_to(ROOT)): lines for file in files if (lines := starts(file))}
    assert list(found) == DOORS, f"use Runner of grstack.run, or grstack.ask: {found}"


@pytest.mark.parametrize(
    "text",
    ["import subprocess\n", "from subprocess import run\n", "os.execvp('x', [])\n"],
)
def test_the_search_sees_every_way(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    assert starts(tmp_path / "a.py")
