"""The C++ core of ids, and its memory, compiled with sanitizers and run as plain programs.

AddressSanitizer and UndefinedBehaviorSanitizer share a build; ThreadSanitizer needs its own.
"""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent / "csrc"
IDS = ("ageing", "eviction", "id_map", "index", "occurrence_counts")
SOURCES = ["common/arena.cpp", "common/mapping_pool.cpp", *(f"ids/{name}.cpp" for name in IDS)]
FLAGS = ["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer", "-pthread"]


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
def test_clean(program: str, sanitizer: str, tmp_path: Path) -> None:
    target = tmp_path / program
    sources = [HERE / f"sanitizers/{program}.cpp", *(CSRC / source for source in SOURCES)]
    command = ["g++", *FLAGS, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-I{CSRC}"]
    subprocess.run([*command, f"-I{HERE / 'sanitizers'}", *map(str, sources), "-o", str(target)], check=True)
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
