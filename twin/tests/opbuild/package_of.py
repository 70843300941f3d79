"""Builds a package of operators as the suite needs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "kernels/operators/common/tests"))
LIB64 = os.environ.get("TWIN_LIB64") or (
    os.environ["ASCEND_HOME_PATH"] + "/lib64" if "ASCEND_HOME_PATH" in os.environ else None
)
# As the image's own operators take them: made of the same sources, in half of what the rest of the suite costs.
CORES = Path(LIB64 or "absent").parent / "tools/cores/cores.o"
# Of the operators in third_party, those that every run builds.
FEW = (
    "exp",
    "leaky_relu_custom",
    "clip_by_value",
    "sub_custom",
    "log_sum_exp",
    "abs_padded",
    "repeat_interleave_custom",
    "axpy_in_place",
    "affine_template",
    "above_mean",
    "choose_rows",
    "matmul_plain",
)


def acl_include() -> Path:
    import importlib.util

    spec = importlib.util.find_spec("torch_npu")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "include/third_party/acl/inc"


def opbuild(operators: Path, out: Path, home: Path, *more: str) -> list[str]:
    command = [sys.executable, str(ROOT / "twin/opbuild/opbuild.py"), "--op", str(operators), "--out", str(out)]
    command += ["--vendor", "test", "--ascend-home", str(home), "--include", str(acl_include())]
    return [*command, *(["--cores", str(CORES)] if CORES.is_file() else []), *more]


def build(folder: Path, names: Iterable[str], *more: str) -> Path:
    """The vendor tree of scale_rows, keep_first and some of third_party; there, files named after none are shared."""
    if LIB64 is None:
        pytest.fail("these tests need the built twin: run them in the image, or set TWIN_LIB64")
    sources = folder / "operators"
    for operator in ("scale_rows", "keep_first"):
        shutil.copytree(HERE / operator, sources, dirs_exist_ok=True)
    for side in ("op_host", "op_kernel"):
        for file in (HERE / "third_party" / side).iterdir():
            if file.suffix == ".h" or file.stem in names:
                shutil.copy(file, sources / side)
    home = folder / "home"
    home.mkdir()
    (home / "lib64").symlink_to(str(LIB64))
    (home / "version.info").write_text("Version=8.3.RC1\n")
    subprocess.run(opbuild(sources, folder, home, *more), check=True)
    return folder / "packages/vendors/test"
