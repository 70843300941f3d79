"""What the wheel holds: one for every Python 3, with nothing of this machine in it."""

from __future__ import annotations

import ast
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_it_has_a_platform_but_no_interpreter(wheel: Path, unpacked: Path) -> None:
    assert re.fullmatch(r"ascend_twin-[\d.]+-py3-none-linux_(x86_64|aarch64)\.whl", wheel.name)
    libraries = sorted((unpacked / "ascend_twin/home/lib64").glob("*.so"))
    assert len(libraries) >= 9
    for library in libraries:
        symbols = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
        python = re.findall(r" U (_?Py\w+)", symbols)
        assert python == [], f"{library.name} binds to CPython"


# What Python 3.11 added to its library, by module.
SINCE_3_11 = {
    "asyncio": {"Barrier", "Runner", "TaskGroup", "timeout"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"EnumType", "FlagBoundary", "StrEnum", "ReprEnum", "global_enum", "member", "nonmember", "verify"},
    "hashlib": {"file_digest"},
    "inspect": {"getmembers_static"},
    "operator": {"call"},
    "typing": {
        "LiteralString",
        "Never",
        "NotRequired",
        "Required",
        "Self",
        "TypeVarTuple",
        "Unpack",
        "assert_never",
        "assert_type",
        "clear_overloads",
        "dataclass_transform",
        "get_overloads",
        "reveal_type",
    },
    "tomllib": {"load", "loads"},
}


def test_its_python_is_that_of_3_10(unpacked: Path) -> None:
    """The wheel promises Python 3.10; the tests may run on a later one."""
    metadata = next(unpacked.glob("ascend_twin-*.dist-info/METADATA")).read_text()
    assert "\nRequires-Python: >=3.10\n" in metadata
    sources = sorted(unpacked.rglob("*.py"))
    assert len(sources) > 20
    for file in sources:
        tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 10))  # no later grammar
        assert [name for name in used(tree) if name[1] in SINCE_3_11.get(name[0], ())] == [], file


def used(tree: ast.Module) -> set[tuple[str, str]]:
    """(module, name) for `from module import name` and `module.name`."""
    imported = {
        (node.module or "", name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    taken = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return imported | taken


def test_nothing_of_it_is_linked_to_a_python(unpacked: Path) -> None:
    home = unpacked / "ascend_twin/home"
    for file in [home / "bin/npu-smi", *(home / "lib64").glob("*.so")]:
        dynamic = subprocess.run(["readelf", "-d", str(file)], capture_output=True, text=True, check=True).stdout
        assert "(NEEDED)" in dynamic or file.stat().st_size < 1 << 15, file.name
        assert [name for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic) if "python" in name] == [], file.name


def test_every_program_and_library_finds_its_neighbours(unpacked: Path) -> None:
    home = unpacked / "ascend_twin/home"
    for file in [home / "bin/npu-smi", *(home / "lib64").glob("*.so")]:
        dynamic = subprocess.run(["readelf", "-d", str(file)], capture_output=True, text=True, check=True).stdout
        assert re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic) in ([], ["$ORIGIN"], ["$ORIGIN/../lib64"]), file.name


def test_what_torch_npu_and_the_operator_builder_want_is_there(unpacked: Path) -> None:
    home = unpacked / "ascend_twin/home"
    wanted = ("include/kernel_operator.h", "tools/opbuild/opbuild.py", "tools/profiler/bin/msprof", "set_env.sh")
    wanted += ("compiler/version.info", "opp/version.info", "runtime/version.info")
    assert [path for path in wanted if not (home / path).is_file()] == []
    assert "emulated=true" in (home / "version.info").read_text()


def test_programs_are_executable(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    assert modes["ascend_twin/home/bin/npu-smi"] == modes["ascend_twin/home/tools/profiler/bin/msprof"] == 0o755
    assert modes["ascend_twin/__main__.py"] == 0o644
