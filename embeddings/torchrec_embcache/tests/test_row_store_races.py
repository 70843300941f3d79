"""The row store's C++ compiled with ThreadSanitizer and run as a plain program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CSRC = HERE.parent / "csrc"
FLAGS = ["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer", "-pthread"]


def test_no_data_race(tmp_path: Path) -> None:
    target = tmp_path / "store"
    sources = [path for path in sorted(CSRC.glob("*.cpp")) if path.name != "library.cpp"]
    sources.append(HERE / "sanitizers/store.cpp")
    command = ["g++", *FLAGS, "-fsanitize=thread", f"-I{CSRC}", *map(str, sources), "-o", str(target)]
    subprocess.run(command, check=True)
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    run = [str(target), str(tmp_path / "rows")]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr
