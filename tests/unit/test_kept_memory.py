"""benchmarks/kept_memory.py: a benchmark begins again with malloc's settings, by the same words, and only once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PROGRAM = """
import sys
import kept_memory
print("begun", flush=True)
kept_memory.keep()
block = bytearray(64 << 20)
del block
before = kept_memory.faults()
block = bytearray(64 << 20)
print(sys.argv[1:], __package__, kept_memory.faults() - before)
"""


@pytest.mark.parametrize("words", [["-m", "package.program"], ["package/program.py"]])
def test_freed_memory_is_there_for_the_next_block(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/program.py").write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    argv = [sys.executable, *words, "--rounds", "3"]
    environment["PYTHONPATH"] = str(BENCHMARKS)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    first, again, last = done.stdout.splitlines()
    assert first == again == "begun"
    faulted = int(last.rpartition(" ")[2])
    assert last.startswith(f"['--rounds', '3'] {'package' if words[0] == '-m' else 'None'}")
    assert faulted < 1000, "of 16,384 pages of 64 MiB"
