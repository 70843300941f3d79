"""What the wheel holds: one for every Python 3, with nothing of this machine in it."""

from __future__ import annotations

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
