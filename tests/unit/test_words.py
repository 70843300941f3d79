"""Optional words after a task's name, as the shell gives them and through invoke itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grstack.words import spell_out

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"opp": ("action", "name"), "run": ("command",)}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["opp"], ["opp"]),
        (["opp", "list"], ["opp", "--action=list"]),
        (["opp", "which", "AddOne", "--into", "x y"], ["opp", "--action=which", "--name=AddOne", "--into", "x y"]),
        (["opp", "list", "--into", "x"], ["opp", "--action=list", "--into", "x"]),
        (["opp", "which", "A", "more"], ["opp", "--action=which", "--name=A", "more"]),
        (["run", "echo a=b --c"], ["run", "--command=echo a=b --c"]),
        (["run", "--shell"], ["run", "--shell"]),
        (["doctor", "opp"], ["doctor", "opp"]),
        ([], []),
    ],
)
def test_words_become_options(typed: list[str], expected: list[str]) -> None:
    assert spell_out(typed, WORDS) == expected


def test_invoke_takes_them() -> None:
    argv = [sys.executable, "-m", "invoke", "opp", "which", "AddOne", "--into", "/not/there"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "/not/there is not a directory" in done.stderr
