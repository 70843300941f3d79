"""Which room of the package may import which: data and imports go one way."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hybrid_torchrec
import pytest

PACKAGE = Path(hybrid_torchrec.__file__).parent
ROOMS = sorted({file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in PACKAGE.rglob("*.py")})
ROOMS.remove("__init__")
# What a table is made of: files beside the rooms.
DATA = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "table_metrics"}
MAY_IMPORT = {
    "backends": DATA,
    "table": DATA | {"backends"},
    "modules": DATA | {"table"},
    "distributed": DATA | {"table", "modules"},
    "checkpoint": DATA | {"table", "modules", "distributed"},
    "serving": DATA | {"table", "checkpoint"},
    "table_metrics": DATA | {"table"},
}
# Of the back ends, the core knows the protocol, what a back end hands over, and who chooses one.
KNOWN_TO_TABLES = {"backends.base", "backends.choice", "backends.ids"}


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Modules of the package that a file imports anywhere, without its name; and whether a program that runs does."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: imports name their package"
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if is_module(name) else node.module for name in below]
        for name in names:
            if name.startswith("hybrid_torchrec."):
                yield name.removeprefix("hybrid_torchrec."), id(node) not in for_types


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def files_of(room: str) -> list[Path]:
    return [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").is_file() else sorted((PACKAGE / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_downwards(room: str) -> None:
    allowed = MAY_IMPORT.get(room, DATA) | {room}
    found = {(str(file.relative_to(PACKAGE)), name) for file in files_of(room) for name, _ in imports(file)}
    assert {(file, name) for file, name in found if name.split(".")[0] not in allowed} == set()


def test_a_table_knows_the_protocol_of_back_ends_only() -> None:
    found = {name for file in files_of("table") for name, _ in imports(file) if name.startswith("backends")}
    assert found == KNOWN_TO_TABLES


def test_no_modules_import_each_other() -> None:
    """A module that is imported first never finds another one half made."""
    graph: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module != "__init__":
            graph[module] = {name for name, runs in imports(file) if runs}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


README = Path(__file__).parents[2] / "README.md"


def test_the_readme_of_the_libraries_names_what_is_there() -> None:
    """Rooms of the package in the table of rooms; paths of files and folders everywhere."""
    text = README.read_text(encoding="utf-8")
    rooms = set(re.findall(r"^\| `([a-z_]+)/` \|", text, re.MULTILINE))
    assert rooms == {room for room in ROOMS if (PACKAGE / room).is_dir()} | {"store"}
    named = {name for name in re.findall(r"`([a-z_/]+(?:\.py|/[a-z_]+|/))`", text) if name.count("/") > 1}
    assert (
        len(named) > 10
        and {name for name in named if not (README.parent / name.removeprefix("embeddings/")).exists()} == set()
    )
