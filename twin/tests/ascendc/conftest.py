"""Compiles the simulated cores and the test kernels once, with the undefined-behaviour sanitizer."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TWIN = HERE.parent.parent
CORES = TWIN / "cores"
FLAGS = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
FLAGS += ["-fsanitize-recover=integer-divide-by-zero"]  # a kernel's goes to cores/arithmetic.cpp
SOURCES = sorted(CORES.glob("*.cpp"))  # without cores/opcall: these kernels are run by no aclnn call


@dataclass(frozen=True)
class Outcome:
    code: int
    text: str


@pytest.fixture(scope="session")
def program_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The program of one source of this folder; the cores are compiled once."""
    compiler = shutil.which("g++")
    assert compiler is not None, "the kernel tests need g++"
    build = tmp_path_factory.mktemp("ascendc")

    def compile_one(source: Path) -> str:
        target = build / f"{source.stem}.o"
        if not target.exists():
            command = [compiler, *FLAGS, f"-I{TWIN / 'include'}", f"-I{CORES}", "-c", str(source), "-o", str(target)]
            subprocess.run(command, check=True)
        return str(target)

    def program(name: str) -> Path:
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compile_one, [*SOURCES, HERE / f"{name}.cpp"]))
        subprocess.run([compiler, *FLAGS, *objects, "-o", str(build / name)], check=True)
        return build / name

    return program


@pytest.fixture(scope="session")
def run_calls(program_of: Callable[[str], Path]) -> Callable[[Path], list[str]]:
    """Runs a file of instructions; one line for each."""
    program = program_of("run_calls")

    def run(file: Path) -> list[str]:
        done = subprocess.run([str(program), str(file)], capture_output=True, text=True, check=True, timeout=120)
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def run_case(program_of: Callable[[str], Path]) -> Callable[..., Outcome]:
    program = program_of("run_case")

    def run(
        name: str,
        *,
        blocks: int = 1,
        cores: int = 40,
        elements: int = 640,
        batch: bool = True,
        seed: int | None = None,
        seeds: str = "",
        check: str = "full",
        timeout: str = "60",
    ) -> Outcome:
        environment = {"TWIN_CHECK": check, "TWIN_KERNEL_TIMEOUT": timeout}
        if seed is not None:
            environment["TWIN_SEED"] = str(seed)
        command = [str(program), name, str(blocks), str(cores), str(elements), "1" if batch else "0"]
        command += [seeds] if seeds else []
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
        return Outcome(result.returncode, result.stdout + result.stderr)

    return run
