"""A small checkout with a table of evidence, for the tests of `inv evidence` and of `inv test --slow`."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from grstack.evidence import command

ROOT = Path(__file__).resolve().parents[2]
RENEW = "python -c \"import pathlib; pathlib.Path('benchmarks/results/speed.json').write_text('2')\""
TABLE = f"""
speed:
  command: {json.dumps(RENEW)}
  where: host
  sources: [fast, benchmarks/speed.py]
far:
  command: python -m benchmarks.far
  where: one NVIDIA H100
  sources: [fast]
"""


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=True).stdout


def made_in(tmp_path: Path) -> Path:
    for name, text in {
        "benchmarks/evidence.yaml": TABLE,
        "benchmarks/speed.py": "1",
        "benchmarks/results/speed.json": "1",
        "benchmarks/results/speed.md": "1",
        "benchmarks/results/far.json": "1",
        "fast/kernel.py": "1",
        "fast/tests/test_kernel.py": "1",
        "fast/README.md": "1",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def words(root: Path) -> dict[str, str]:
    return {state.name: state.word for state in command.states(root)}


def session(root: Path) -> Any:
    return SimpleNamespace(paths=SimpleNamespace(root=root), console=Console(file=io.StringIO(), width=200))
