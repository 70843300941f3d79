"""Everything of the twin compiles for aarch64: by Debian's cross compiler, unoptimised, with the warnings of a build.
The CPU kernels that need no torch run there, on an emulated processor.

What needs no torch is linked too. The two libraries that compute with libtorch are compiled against the headers of the
locked wheels, which are the same for both architectures, with the C++ ABI of the aarch64 ones; there is no aarch64
libtorch here to link them with.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "twin/runtime"
CORES = ROOT / "twin/cores"
KERNELS = ROOT / "kernels"
CROSS = KERNELS / "gr_ops/tests/cross"
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
WITHOUT_TORCH = (
    "ascendcl",
    "nnopbase",
    "acl_op_compiler",
    "ge_runner",
    "graph",
    "acl_tdt_channel",
    "msprofiler",
    "ascend_hal",
    "hccl",
    "npu-smi",
)
WITH_TORCH = ("opapi", "twin_aten")
CXX11_ABI = 1  # of torch, torch_npu and fbgemm_gpu on aarch64; 0 on x86_64
pytestmark = pytest.mark.image


def call(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torch/include and torch_npu/include of the locked wheels."""
    folder = tmp_path_factory.mktemp("headers")
    wheels = Session(ROOT, Choices(), Console(quiet=True)).fetch().wheels_all
    for package in ("torch", "torch_npu"):
        (wheel,) = [path for name, path in wheels.items() if name.startswith(f"{package}-")]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{package}/include/")])
        (folder / package / "lib").mkdir()
    return folder


@pytest.fixture(scope="module")
def build(headers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    for library in ("torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch_npu/lib/libtorch_npu.so"):
        (headers / library).touch()  # ninja wants the inputs of links that this test does not ask for
    call(
        "cmake",
        "-S",
        RUNTIME,
        "-B",
        folder,
        "-G",
        "Ninja",
        f"-DCMAKE_TOOLCHAIN_FILE={RUNTIME / 'cmake/aarch64-linux-gnu.cmake'}",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -Werror",
        f"-DTORCH_DIR={headers / 'torch'}",
        f"-DTORCH_NPU_DIR={headers / 'torch_npu'}",
        f"-DTORCH_CXX11_ABI={CXX11_ABI}",
    )
    return folder


def ran(program: Path, include: Path, *sources: Path) -> str:
    """What a program says on an emulated processor."""
    flags = ("-std=c++17", "-O3", "-ffp-contract=fast", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-static")
    call(COMPILER, *flags, f"-I{include}", *sources, "-o", program)
    return call(EMULATOR, program).strip()


def machine(file: Path) -> str:
    found = re.search(r"Machine:\s*(.*)", call("readelf", "-h", file))
    assert found is not None
    return found.group(1)


def test_what_needs_no_torch_is_built(build: Path) -> None:
    call("cmake", "--build", build, "--parallel", "2", "--target", *WITHOUT_TORCH)
    files = [*(build / "lib64").glob("*.so"), build / "bin/npu-smi"]
    assert len(files) == len(WITHOUT_TORCH)
    assert {machine(file) for file in files} == {"AArch64"}


@pytest.mark.slow  # minutes of compiler time in torch's headers
def test_what_computes_with_torch_compiles(build: Path) -> None:
    targets = call("ninja", "-C", build, "-t", "targets", "all").splitlines()
    objects = [line.split(":")[0] for line in targets if line.split(":")[0].endswith((".cpp.o", ".cxx.o"))]
    wanted = [name for name in objects if any(f"{library}.dir/" in name for library in WITH_TORCH)]
    assert all(any(f"{library}.dir/" in name for name in wanted) for library in WITH_TORCH)
    together = "".join(file.read_text() for file in build.rglob("Unity/*.cxx"))  # small files are compiled in groups
    for source in (file for folder in ("opapi", "aten") for file in (RUNTIME / folder).rglob("*.cpp")):
        assert f'"{source}"' in together or any(name.endswith(f"/{source.name}.o") for name in wanted), source
    call("ninja", "-C", build, "-j2", *wanted)
    assert {machine(build / name) for name in wanted} == {"AArch64"}


def test_simulated_cores_and_an_operator_compile(headers: Path, tmp_path: Path) -> None:
    operator = ROOT / "kernels/operators/asynchronous_complete_cumsum"
    acl = headers / "torch_npu/include/third_party/acl/inc"
    flags = ["-std=c++17", "-O0", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{CORES}", f"-I{ROOT / 'twin/include'}"]
    flags += [
        f"-I{RUNTIME / 'include'}",
        "-isystem",
        str(acl),
        f"-I{operator / 'op_kernel'}",
        f"-I{operator / 'op_host'}",
    ]
    flags += [f"-I{operator.parent / 'common'}"]
    sources = [*sorted(CORES.rglob("*.cpp")), *sorted((operator / "op_host").glob("*.cpp"))]
    assert len(sources) > 15

    def compile_one(item: tuple[int, Path]) -> Path:
        number, source = item
        out = tmp_path / f"{number}.o"
        call(COMPILER, *flags, "-c", source, "-o", out)
        return out

    with ThreadPoolExecutor(2) as pool:
        compiled: Sequence[Path] = list(pool.map(compile_one, enumerate(sources)))
    assert {machine(file) for file in compiled} == {"AArch64"}


def test_moves_run(tmp_path: Path) -> None:
    csrc = KERNELS / "gr_ops/csrc"
    said = ran(tmp_path / "moves", csrc, CROSS / "moves.cpp", csrc / "common/moves.cpp")
    assert re.fullmatch(r"\d{4,} moves compared, 0 wrong", said)


def test_arithmetic_on_rows_runs(tmp_path: Path) -> None:
    """Lookups, fp16 and optimizers by NEON beside plain loops in double."""
    said = ran(tmp_path / "row_kernels", KERNELS, CROSS / "row_kernels.cpp", *(KERNELS / "row_math").glob("*.cpp"))
    assert re.fullmatch(r"\d{6,} numbers compared, 0 wrong", said)


@pytest.mark.slow  # minutes of compiler time
def test_hstu_attention_runs(tmp_path: Path) -> None:
    csrc = KERNELS / "gr_ops/csrc"
    said = ran(tmp_path / "hstu_kernels", csrc, CROSS / "hstu_kernels.cpp", csrc / "hstu/cpu/baseline.cpp")
    assert re.search(r": 0 of \d{3} cases wrong", said)
