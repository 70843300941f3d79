"""Libraries that are damaged, and toolkits that lack theirs, are found."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from grstack import commands
from grstack.choices import Choices
from tests.integration.opp_packages import CUMSUM, OPAPI, Real, errors, look

pytestmark = pytest.mark.image


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_library_is_found(real: Real, output: io.StringIO, opp: Path, damage: str) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    library = opp / f"vendors/mxrec_{CUMSUM}" / OPAPI
    content = bytearray(library.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    else:
        del content[2000:]
    library.write_bytes(content)
    found = errors(look(opp, real.twin))
    assert f"mxrec_{CUMSUM}: changed since it was packed: {OPAPI}" in found or "cannot be read" in str(found)
    assert commands.opp(Choices(), "verify", into=str(opp)) == 1


def test_a_toolkit_without_its_libraries_is_named(real: Real, output: io.StringIO, opp: Path, tmp_path: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    for name in ("empty", "stub"):
        (tmp_path / name / "lib64").mkdir(parents=True)
        shutil.copy(real.twin / "version.info", tmp_path / name)
    toolkit = tmp_path / "empty"
    assert any("needs libascendcl.so, libnnopbase.so, not found" in message for message in errors(look(opp, toolkit)))
    toolkit = tmp_path / "stub"
    (toolkit / "lib64/libascendcl.so").write_bytes((real.twin / "lib64/libascendcl.so").read_bytes())
    stub = tmp_path / "stub.c"
    stub.write_text("int nothing(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", toolkit / "lib64/libnnopbase.so", stub], check=True)
    assert any("has undefined symbols: " in message for message in errors(look(opp, toolkit)))
