"""What the dynamic loader wants: the wheel's libraries resolve at load time, and nothing else is exported."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin

RUNTIME = [
    "ascendcl",
    "acl_op_compiler",
    "hccl",
    "nnopbase",
    "opapi",
    "ge_runner",
    "graph",
    "acl_tdt_channel",
    "msprofiler",
    "ascend_hal",
]
# Functions of other products that torch_npu looks up; a wrong answer is worse than none.
NOT_EMULATED = re.compile(
    r"aclGetCannAttribute|aclprofGet|aclprofMark|aclmdlRI|aclrtIpc|aclrtReserveMem|PTA|aclrtSubscribe"
)


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)  # does not import a top-level package
    assert spec is not None, f"{name} is not installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def output(*command: str, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.stdout + done.stderr


@pytest.mark.parametrize("library", ["_C", "lib/libtorch_npu.so", "lib/libtensorpipe.so", "lib/libnpu_profiler.so"])
def test_every_symbol_of_a_wheel_library_resolves(lib64: Path, library: str) -> None:
    folder = package("torch_npu")
    (path,) = folder.glob("_C.*.so") if library == "_C" else [folder / library]
    # libtorch_python takes Python's symbols from the interpreter, which ldd does not load.
    torch = package("torch") / "lib"
    found = output("ldd", "-r", str(path), LD_BIND_NOW="1", LD_LIBRARY_PATH=f"{lib64}:{torch}:{path.parent}")
    assert "libascendcl.so" in found or library == "lib/libnpu_profiler.so"
    undefined = [line for line in found.splitlines() if "undefined symbol" in line or "not found" in line]
    if library == "lib/libnpu_profiler.so":  # has libtorch_npu load it, and takes these from there
        undefined = [line for line in undefined if not re.search(r"aclAppLog|c10_npu", line)]
    ours = [line for line in undefined if not re.search(r"undefined symbol: _?Py", line)]
    assert ours == []


@pytest.mark.parametrize("name", RUNTIME)
def test_soname_and_exports(lib64: Path, name: str) -> None:
    path = str(lib64 / f"lib{name}.so")
    assert f"[lib{name}.so]" in output("readelf", "-d", path)
    assert not re.search(r"R(UN)?PATH.*\[(?!\$ORIGIN\])", output("readelf", "-d", path)), "a path of the build machine"
    symbols = [line.split()[-1] for line in output("nm", "-D", "--defined-only", path).splitlines()]
    assert [s for s in symbols if NOT_EMULATED.search(s)] == []
    if name in {"ge_runner", "graph", "acl_tdt_channel", "msprofiler"}:
        assert symbols == []
    if name in {"ascendcl", "acl_op_compiler", "nnopbase", "hccl"}:
        assert [s for s in symbols if s.startswith("_Z")] == [], "C++ symbols would meet torch's"
        assert "libtorch" not in output("readelf", "-d", path)
