"""The C++ core of ids, and its memory, compiled with sanitizers and run as plain programs.

AddressSanitizer and UndefinedBehaviorSanitizer share a build; ThreadSanitizer needs its own.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent / "csrc"
IDS = ("ageing", "eviction", "id_map", "index", "occurrence_counts")
SOURCES = ["common/arena.cpp", "common/mapping_pool.cpp", *(f"ids/{name}.cpp" for name in IDS)]
# -O0: at -O1 a race of plain stores that nothing reads in between is optimized away
FLAGS = ["-std=c++17", "-O0", "-g1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer", "-pthread"]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """The objects of SOURCES under a sanitizer, compiled once for all programs."""
    made: dict[str, list[str]] = {}

    def objects(sanitizer: str) -> list[str]:
        if sanitizer not in made:
            folder = tmp_path_factory.mktemp("core")
            subprocess.run(
                [*compiler(sanitizer), "-c", *(str(CSRC / name) for name in SOURCES)], check=True, cwd=folder
            )
            made[sanitizer] = sorted(map(str, folder.glob("*.o")))
            assert len(made[sanitizer]) == len(SOURCES)
        return made[sanitizer]

    return objects


def compiler(sanitizer: str) -> list[str]:
    return ["g++", *FLAGS, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-I{CSRC}"]


@pytest.mark.parametrize(
    ("program", "sanitizer"),
    [
        ("ids", "address,undefined"),
        ("memory", "address,undefined"),
        ("memory", "thread"),
        ("readers", "address,undefined"),
        ("readers", "thread"),
    ],
)
def test_clean(program: str, sanitizer: str, tmp_path: Path, core: Callable[[str], list[str]]) -> None:
    target, source = tmp_path / program, HERE / f"sanitizers/{program}.cpp"
    command = [*compiler(sanitizer), f"-I{HERE / 'sanitizers'}", str(source), *core(sanitizer), "-o", str(target)]
    subprocess.run(command, check=True)
    options = "halt_on_error=1:second_deadlock_stack=1"
    environment = {
        **os.environ,
        "ASAN_OPTIONS": options,
        "TSAN_OPTIONS": options,
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run([str(target)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr
