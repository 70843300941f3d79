"""Kernels as the device's compiler sees them: memories are address spaces, which clang has and g++ has not.

Runs on the host, where clang costs the image nothing; what passed once is not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "twin/opbuild"))

import address_spaces  # noqa: E402
import host_compiler  # noqa: E402
from opbuild import DUMP, dump_beside  # noqa: E402

OPERATORS = sorted(folder.parent for folder in (ROOT / "kernels/operators").glob("*/op_kernel"))
EXAMPLE = ROOT / "twin/tests/opbuild/scale_rows"
PASSED = ROOT / "build/address-spaces"


def key(operator: Path) -> str:
    folders = (operator, operator.parent / "common", ROOT / "twin/include", ROOT / "twin/opbuild")
    files = [f for folder in folders for f in sorted(folder.rglob("*")) if f.suffix in (".h", ".cpp", ".py")]
    digest = hashlib.sha256(subprocess.run(["clang++", "--version"], capture_output=True, check=True).stdout)
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In place of the compiled cores, which a check does not ask for; and beside them the compiled program that prints
    definitions, which takes as long as an operator's own sources."""
    made = tmp_path_factory.mktemp("cores") / "cores.o"
    made.touch()
    folders = [f"-I{ROOT / 'twin' / name}" for name in ("include", "runtime/include")]
    command = [host_compiler.find(), "-std=c++17", "-O0", "-fPIC", *folders, "-c", DUMP, "-o", dump_beside(made)]
    subprocess.run(command, check=True)
    return made


def opbuild(operator: Path, scratch: Path, cores: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "twin/opbuild/opbuild.py"), "--op", str(operator), "--check-only"]
    command += ["--out", str(scratch / "out"), "--vendor", "test", "--ascend-home", str(scratch)]
    command += ["--cores", str(cores), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def with_kernel(folder: Path, text: str) -> Path:
    """The example operator whose kernel also holds `text`."""
    operator = folder / "scale_rows"
    shutil.copytree(EXAMPLE, operator)
    kernel = operator / "op_kernel/scale_rows.cpp"
    kernel.write_text(kernel.read_text() + text)
    return operator


def faults(folder: Path, text: str) -> str:
    unit = folder / "unit.cpp"
    unit.write_text(f'#include "kernel_operator.h"\n{text}\n')
    return address_spaces.faults("clang++", unit, [f"-I{ROOT / 'twin/include'}"])


def test_pointers_of_our_operators_stay_in_their_memory(tmp_path: Path, cores: Path) -> None:
    def check(operator: Path) -> str:
        stamp = PASSED / f"{operator.name}-{key(operator)}"
        if stamp.is_file():
            return ""
        done = opbuild(operator, tmp_path, cores, "--werror")
        if done.returncode == 0:
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
        return "" if done.returncode == 0 else f"{operator.name}: {done.stdout}{done.stderr}"

    assert shutil.which("clang++"), "apt-get install clang"
    assert len(OPERATORS) >= 11
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert not [fault for fault in pool.map(check, OPERATORS) if fault]


FAULTS = {  # what a kernel does, and what is said of it
    "inline float Read(GM_ADDR x) { return *reinterpret_cast<float *>(x); }": ("error: reinterpret_cast", "__gm__"),
    'inline float Read(GM_ADDR x) { return *(float *)x; }\nextern "C" float reads(GM_ADDR x) { return Read(x); }': (
        "cast of a pointer from __gm__ to the core's own memory",
    ),
    'extern "C" void moves(GM_ADDR x) { auto *p = (__ubuf__ float *)x; *p = 0; }': (
        "cast of a pointer from __gm__ to __ubuf__ memory",
    ),
    "inline void Take(__ubuf__ float *x) { *x = 0; }\ninline void Give(__gm__ float *x) { Take(x); }": (
        "no matching function for call to 'Take'",
        "cannot pass pointer to memory __gm__ as a pointer to memory __ubuf__",
    ),
    "inline void Take(__cbuf__ float *x) { *x = 0; }\ninline void Give(__ubuf__ float *x) { Take(x); }": (
        "cannot pass pointer to memory __ubuf__ as a pointer to memory __cbuf__",
    ),
    "inline void Bind(float *x) { AscendC::GlobalTensor<float> t; t.SetGlobalBuffer(x, 1); }": (
        "no matching member function for call to 'SetGlobalBuffer'",
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_pointer_to_another_memory_is_an_error_with_its_place(tmp_path: Path, text: str) -> None:
    said = faults(tmp_path, text)
    assert "unit.cpp:" in said and all(word in said for word in FAULTS[text]), said


def test_pointers_within_global_memory_are_none(tmp_path: Path) -> None:
    text = "inline GM_ADDR Next(GM_ADDR x) { return (GM_ADDR)(reinterpret_cast<__gm__ float *>(x) + 1); }\n"
    assert faults(tmp_path, text + 'extern "C" GM_ADDR next(GM_ADDR x) { return Next(x); }') == ""


def test_the_builder_refuses_an_operator_for_it(tmp_path: Path, cores: Path) -> None:
    text = "inline float *Read(GM_ADDR x) { return reinterpret_cast<float *>(x); }\n"
    done = opbuild(with_kernel(tmp_path, text), tmp_path, cores)
    assert done.returncode == 1
    assert "a pointer to one memory is used as one to another" in done.stderr and "scale_rows.cpp:38:" in done.stderr


def test_without_clang_it_says_that_nothing_was_checked(
    tmp_path: Path, cores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWIN_CLANG", "no-such-clang")
    operator = with_kernel(tmp_path, "inline float *Read(GM_ADDR x) { return (float *)x; }\n")
    done = opbuild(operator, tmp_path, cores)
    assert done.returncode == 0, done.stderr
    assert "address spaces are not checked: there is no no-such-clang (apt-get install clang)" in done.stdout
