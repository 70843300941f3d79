"""`inv new`: what it writes and refuses, and that what it writes passes the linters.

That it works is shown in the image (grstack/new/tests).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke import Program
from invoke.collection import Collection

import tasks
from grstack import commands, operators, spec
from grstack.errors import UsageError
from grstack.new import Name, Plan, beside, inside
from grstack.new.command import new
from grstack.new.operator import SHARED

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
_spec = importlib.util.spec_from_file_location("opbuild_naming", ROOT / "twin/opbuild/naming.py")
assert _spec is not None and _spec.loader is not None
_naming = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_naming)
snake_case = _naming.snake_case
COPIED = ("versions.yaml", "LICENSE", ".clang-format", "pyproject.toml", "kernels/gr_ops/csrc", "recipes/operators")
NAMES = ["row_sum", "name_that_is_as_long_as_names_can_be_now"]  # lines break elsewhere


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    copy = tmp_path / "checkout"
    for place in COPIED:
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / place).is_dir():
            shutil.copytree(ROOT / place, copy / place)
        else:
            shutil.copy(ROOT / place, copy / place)
    return copy


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lint(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def lint_all(plan: Plan) -> None:
    by_suffix = {suffix: [file for file in plan.files if file.suffix == suffix] for suffix in (".cpp", ".h", ".py")}
    python = by_suffix[".py"]
    lint(BIN / "clang-format", f"--style=file:{ROOT / '.clang-format'}", "--dry-run", "-Werror", *by_suffix[".cpp"])
    lint(BIN / "clang-format", f"--style=file:{ROOT / '.clang-format'}", "--dry-run", "-Werror", *by_suffix[".h"])
    for check in (["check"], ["format", "--check"]):
        lint(BIN / "ruff", *check, f"--config={ROOT / 'pyproject.toml'}", *python)
    for file in python:  # each by itself: tests of one name stand in several folders
        settings = ["--strict", "--ignore-missing-imports", "--follow-imports=silent", "--allow-untyped-decorators"]
        lint(BIN / "mypy", "--config-file=", *settings, "--no-warn-return-any", file)


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_inside_passes_the_linters(checkout: Path, name: str) -> None:
    lint_all(new(checkout, "operator", name))


def test_an_operator_outside_passes_the_linters(checkout: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    plan = new(checkout, "operator", NAMES[0], outside=str(project))
    lint_all(plan)
    lint(BIN / "shellcheck", project / "build.sh")
    assert (project / "build.sh").stat().st_mode & 0o111


def test_the_row_in_versions_yaml_agrees_with_the_definition(checkout: Path) -> None:
    before = (checkout / "versions.yaml").read_text()
    new(checkout, "operator", "row_sum")
    after = (checkout / "versions.yaml").read_text()
    row = "  row_sum: {socs: [ascend910b, ascend910_93]}\n"
    assert after.replace(row, "") == before and row in after
    versions = spec.load(checkout / "versions.yaml")
    assert list(versions.operators)[-1] == "row_sum"
    operators.check(checkout, {"row_sum": versions.operators["row_sum"].socs})


def test_nothing_of_the_template_is_left(checkout: Path, tmp_path: Path) -> None:
    for plan in (inside(checkout, Name.parse("row_sum")), beside(checkout, Name.parse("row_sum"), tmp_path / "p")):
        for path, text in plan.files.items():
            for word in ("new_operator", "NewOperator", "TODO", "FIXME"):
                assert word not in text and word not in path.name, f"{word} in {path}"


def test_a_dry_run_writes_nothing_and_shows_everything(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(checkout)
    plan = new(checkout, "operator", "row_sum", dry_run=True)
    assert tree(checkout) == before
    shown = capsys.readouterr().out
    assert shown.count("would write") == len(plan.files) + 1
    assert "versions.yaml" in shown and "inv install-ops --op row_sum" in shown


def test_what_is_there_is_not_written_over(checkout: Path, tmp_path: Path) -> None:
    new(checkout, "operator", "row_sum")
    before = tree(checkout)
    with pytest.raises(UsageError, match="there is an operator or a folder 'row_sum' already"):
        new(checkout, "operator", "row_sum")
    (checkout / "smoke_tests/checks/operator_cases/col_sum.py").write_text("mine")
    before = tree(checkout)
    with pytest.raises(UsageError, match="1 of the files exist already"):
        new(checkout, "operator", "col_sum")
    with pytest.raises(UsageError, match="is not empty"):
        new(checkout, "operator", "col_sum", outside=str(checkout))
    with pytest.raises(UsageError, match="mxrec::hstu_jagged is registered already"):
        new(checkout, "operator", "hstu_jagged")
    assert tree(checkout) == before


@pytest.mark.parametrize(
    "name", ["", "sum", "Row_sum", "row-sum", "row_2", "_row_sum", "row__sum", "../x_y", "a_" * 30]
)
def test_names_that_will_not_do(checkout: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name an operator"):
        new(checkout, "operator", name)


def test_unknown_kind(checkout: Path) -> None:
    with pytest.raises(UsageError, match="unknown kind 'metric'; valid: operator"):
        new(checkout, "metric", "row_sum")


@given(st.from_regex(r"[a-z][a-z0-9]{1,4}(_[a-z][a-z0-9]{1,4}){1,4}", fullmatch=True))
def test_the_builders_read_the_name_from_the_type(text: str) -> None:
    """They look for op_kernel/<snake case of the type>.cpp."""
    assert snake_case(Name.parse(text).camel) == text


@pytest.mark.parametrize("place", SHARED.values(), ids=str)
def test_what_projects_outside_take_needs_nothing_else_of_us(place: Path) -> None:
    for file in (ROOT / place).rglob("*"):
        for line in file.read_text(encoding="utf-8").splitlines() if file.suffix in (".h", ".cpp") else ():
            included = line.removeprefix('#include "').removesuffix('"') if line.startswith('#include "') else ""
            ours = included and (ROOT / "kernels/gr_ops/csrc" / included).exists()
            assert not ours or included.startswith("aclnn/"), f"{file}: {line}"


def test_as_it_is_typed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "ROOT", checkout)
    monkeypatch.chdir(checkout)
    program = Program(namespace=Collection.from_module(tasks), version="0")
    program.run("inv new --kind operator --name row_sum", exit=False)
    assert (checkout / "kernels/operators/row_sum/op_host/row_sum.cpp").is_file()
