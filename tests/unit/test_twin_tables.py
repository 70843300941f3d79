"""Tables of the twin's C++ that are written by hand: they name what is there, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grstack import spec

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "twin/runtime"
OPAPI = RUNTIME / "opapi"
LIBRARIES = sorted(path.parent.name for path in RUNTIME.glob("*/CMakeLists.txt"))


def test_every_soc_of_versions_yaml_is_a_machine_of_the_cores() -> None:
    text = (ROOT / "twin/cores/opcall/platform.cpp").read_text(encoding="utf-8")
    table = text.partition("kMachines[] = {")[2].partition("\n};")[0]
    short_names = {found[1] for found in re.findall(r'\{"(Ascend[\w-]+)", (?:true|false), "(\w+)", \d+', table)}
    assert short_names == set(spec.load(ROOT / "versions.yaml").socs)


@pytest.fixture(scope="module")
def rules() -> list[tuple[list[str], list[str]]]:
    """Functions and arguments of each row of the data types."""
    table = (OPAPI / "types.cpp").read_text(encoding="utf-8").partition("RULES[] = {")[2].partition("\n};")[0]
    table = re.sub(r"//[^\n]*", "", table)
    rows = re.findall(r'\{((?:\s*"[^"]*")+),((?:\s*"[^"]*")+),', table)
    assert len(rows) > 20
    return [
        ("".join(re.findall(r'"([^"]*)"', f)).split(), "".join(re.findall(r'"([^"]*)"', a)).split()) for f, a in rows
    ]


def test_data_types_are_of_functions_and_arguments_that_exist(rules: list[tuple[list[str], list[str]]]) -> None:
    """A misspelt name would leave all types."""
    sources = [path for path in OPAPI.iterdir() if path.suffix in (".cpp", ".h") and path.name != "types.cpp"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    functions, arguments = (
        set(re.findall(r"\b(?:aclnn|aclStft)\w*", text)),
        set(re.findall(r"\((?:\w|:)+, (\w+)\)", text)),
    )
    assert len(functions) > 200 and {"self", "out", "other"} <= arguments
    assert [name for names, _ in rules for name in names if name not in functions | {"*"}] == []
    assert [name for _, names in rules for name in names if name not in arguments | {"*"}] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_source_is_built(library: str) -> None:
    folder = RUNTIME / library
    lists = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
    listed = set(re.findall(r"\b(\w+\.cpp)\b", lists))
    there = {path.name for path in folder.glob("*.cpp")}
    if "GLOB" in lists:
        assert re.search(r"file\(GLOB \w+ CONFIGURE_DEPENDS[^)]*\*\.cpp\)", lists)
    else:
        assert there <= listed
    assert listed <= there
