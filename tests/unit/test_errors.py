from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import grstack.errors as errors
from grstack.errors import GrstackError, UsageError
from grstack.files import not_ours
from grstack.run import CommandFailed

ROOT = Path(__file__).resolve().parents[2]


def _classes() -> list[type[GrstackError]]:
    return [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, GrstackError)]


def test_every_class_has_its_own_exit_code() -> None:
    codes = [error.exit_code for error in _classes()]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = dict(re.findall(r"(\w+) \((\d+)\)", errors.__doc__ or ""))
    assert {name: int(code) for name, code in drawn.items()} == {
        error.__name__: error.exit_code for error in _classes()
    }


def test_message_says_what_where_and_the_next_command() -> None:
    error = GrstackError("no lock", where="locks/npu.json", next_command="inv lock")
    assert str(error) == "no lock\n  where: locks/npu.json\n  next:  inv lock"
    assert str(GrstackError("no lock")) == "no lock"


def test_unknown_name_lists_the_valid_ones() -> None:
    error = UsageError.unknown("target", "gpu", ["npu", "cpu"])
    assert error.what == "unknown target 'gpu'; valid: cpu, npu"


def test_every_error_names_the_next_command() -> None:
    """One that is raised without gets it elsewhere: UsageError.unknown from the task, CommandFailed from its log."""
    classes = {error.__name__ for error in _classes()}
    without = []
    for path in sorted((ROOT / "grstack").rglob("*.py")):
        for call in (
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ):
            if not (isinstance(call.func, ast.Name) and call.func.id in classes):
                continue
            given = [keyword.value for keyword in call.keywords if keyword.arg == "next_command"]
            empty = [
                part
                for value in given
                for part in ast.walk(value)
                if isinstance(part, ast.Constant) and part.value == ""
            ]
            if not given or empty:
                without.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert without == []
    assert CommandFailed(["g++"], 1, [], None).next_command and CommandFailed(["g++"], 1, [], Path("a b")).next_command


def test_what_root_has_made_in_the_checkout_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build").mkdir()
    monkeypatch.chdir(tmp_path)
    closed = not_ours(PermissionError(13, "Permission denied", str(tmp_path / "build/out")), tmp_path)
    assert closed is not None and closed.what.startswith("build/out: Permission denied")
    assert closed.next_command == "sudo chown -R $(id -u):$(id -g) build"
    assert not_ours(PermissionError(13, "Permission denied", "/etc/shadow"), tmp_path) is None
