"""inv lint: each linter sees a fault in what it is for, and repairs it where it can."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from grstack import lint
from grstack.run import Runner

ROOT = Path(__file__).resolve().parents[2]
FAULTS = {  # linter -> a file, and what is wrong in it
    "ruff": ("one.py", "import os\n"),
    "ruff format": ("one.py", "x = {'a':1}\n"),
    "mypy": ("one.py", "def f(x: int) -> str:\n    return x\n"),
    "clang-format": ("csrc/one.h", "int  f( int x );\n"),
    "shellcheck": ("bin/one.sh", "#!/bin/sh\nrm -rf $1\n"),
    "hadolint": ("docker/one/Dockerfile", "FROM debian:12\nRUN cd /tmp && ls *\nMAINTAINER me\n"),
}
CLEAN = {
    "one.py": "X = 1\n",
    "csrc/one.h": "int f(int x);\n",
    "bin/one.sh": '#!/bin/sh\nrm -rf "$1"\n',
    "docker/one/Dockerfile": "FROM debian:12\n",
    "pyproject.toml": '[tool.mypy]\nstrict = true\nfiles = ["one.py"]\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in CLEAN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in (".clang-format", ".hadolint.yaml", ".shellcheckrc"):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def run(root: Path, *, fix: bool = False) -> tuple[list[str], str]:
    output = io.StringIO()
    failed = lint.run(root, Runner(Console(file=output, width=200)), fix=fix)
    return failed, output.getvalue()


def test_a_clean_project_passes_every_linter(project: Path) -> None:
    failed, output = run(project)
    assert failed == [], output
    assert all(f"+ {' '.join(linter.check)}" in output for linter in lint.LINTERS)


@pytest.mark.parametrize("name", [linter.name for linter in lint.LINTERS])
def test_each_linter_finds_its_fault_alone(project: Path, name: str) -> None:
    file, text = FAULTS[name]
    (project / file).write_text(text)
    failed, output = run(project)
    assert failed == [name]
    assert "one" in output
    said = io.StringIO()
    lint.advise(failed, Console(file=said, width=200))
    repairs = next(linter for linter in lint.LINTERS if linter.name == name).fix
    assert f"failed: {name} (settings: " in said.getvalue()
    assert ("next:  inv lint --fix" in said.getvalue()) == bool(repairs)


@pytest.mark.parametrize("name", [linter.name for linter in lint.LINTERS if linter.fix])
def test_what_can_be_repaired_is(project: Path, name: str) -> None:
    file, text = FAULTS[name]
    (project / file).write_text(text)
    assert run(project, fix=True)[0] == []
    assert run(project)[0] == []


def test_every_file_of_a_language_is_given_to_its_linter() -> None:
    """Against git's own list; what is built, fetched or of an environment is left out."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.fail("this test needs the clone's history: git clone")
    runner = Runner(Console(file=io.StringIO()))
    here = set(lint.sources(ROOT, runner))
    archive = set(lint._walk(ROOT))  # where there is no git
    for linter in lint.LINTERS:
        assert (ROOT / linter.setting).is_file()
        if linter.files:
            expected = lint.matching(tracked.stdout.splitlines(), linter.files)
            assert expected
            assert set(expected) <= here and set(expected) <= archive
    shell = next(linter for linter in lint.LINTERS if linter.name == "shellcheck")
    for file in tracked.stdout.splitlines():
        first = (ROOT / file).open("rb").readline()
        if first.startswith(b"#!") and b"sh" in first and b"python" not in first:
            assert lint.matching([file], shell.files), file


def test_the_hook_runs_the_same() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "entry: .venv/bin/inv lint\n" in text
    assert subprocess.run([lint.BIN / "prek", "validate-config", ROOT / ".pre-commit-config.yaml"]).returncode == 0


def test_no_layout_is_kept_from_the_formatters() -> None:
    """But for clang-format's list of macros, whose reason stands beside it."""
    mark = "fmt" + ": "
    runner = Runner(Console(file=io.StringIO()))
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in lint.sources(ROOT, runner) if name[-3:] == ".py"
    }
    assert [name for name, text in texts.items() if f"{mark}skip" in text or f"{mark}off" in text] == []
