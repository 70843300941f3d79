"""Rooms import one way: each only those that stand before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
ROOMS = ("common", "config", "data", "runtime", "embedding", "model", "tasks", "report", "run", "training")
# Presets name the signals and features of the data sets that they are for.
EXCEPT = {("config/presets.py", "data")}


def rooms_imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gr_model":
            _, *inside = node.module.split(".")
            yield from inside[:1] or (alias.name for alias in node.names)


def test_every_folder_is_a_room():
    assert {path.parent.name for path in HERE.glob("*/__init__.py")} == {*ROOMS, "tests"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_those_before_it(room):
    files = sorted((HERE / room).rglob("*.py"))
    assert files
    allowed = ROOMS[: ROOMS.index(room) + 1]
    wrong = {(str(f.relative_to(HERE)), to) for f in files for to in rooms_imported(f) if to not in allowed}
    assert wrong == (EXCEPT if room == "config" else set())
