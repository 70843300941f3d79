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
# The rest of the cores belongs to the aclnn calls.
SOURCES = [f for f in sorted(CORES.glob("*.cpp")) if f.stem not in ("launch_plan", "opcall", "platform", "views")]


@dataclass(frozen=True)
class Outcome:
    code: int
    text: str


@pytest.fixture(scope="session")
def run_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    compiler = shutil.which("g++")
    assert compiler is not None, "the kernel tests need g++"
    build = tmp_path_factory.mktemp("ascendc")

    def compile_one(source: Path) -> str:
        target = build / f"{source.stem}.o"
        command = [compiler, *FLAGS, f"-I{TWIN / 'include'}", f"-I{CORES}", "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [*SOURCES, HERE / "run_case.cpp"]))
    program = build / "run_case"
    subprocess.run([compiler, *FLAGS, *objects, "-o", str(program)], check=True)

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
