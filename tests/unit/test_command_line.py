"""Optional words after a task's name, as the shell gives them and through invoke itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from invoke.collection import Collection
from invoke.program import Program

import tasks
from grstack.command_line import check, spell_out

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


def inv(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "invoke", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def test_invoke_takes_them() -> None:
    done = inv("opp", "which", "AddOne", "--into", "/not/there")
    assert done.returncode == 2 and "/not/there is not a directory" in done.stderr


@pytest.mark.parametrize(
    ("typed", "said", "next_command"),
    [
        (["biuld-image"], "no task 'biuld-image'; did you mean build-image?", "inv build-image"),
        (["build_image"], "no task 'build_image'; did you mean build-image?", "inv build-image"),
        (["smoke-tests", "--engine", "none"], "did you mean smoke-test?", "inv smoke-test"),
        (["xyzzy"], "no task 'xyzzy'", "inv --list"),
        (["build-image", "cann"], "no task 'cann'", "inv "),
        (["--help", "biuld-image"], "did you mean build-image?", "inv build-image"),
        (
            ["build-image", "--plaform", "cann"],
            "no option '--plaform'; did you mean --platform?",
            "inv --help build-image",
        ),
        (["build-image", "--engin=none"], "no option '--engin'; did you mean --engine?", "inv --help build-image"),
        (
            ["run", "--targett", "cpu", "true"],
            "inv run has no option '--targett'; did you mean --target?",
            "inv --help run",
        ),
        (["lock", "--xyzzy"], "inv lock has no option '--xyzzy'", "inv --help lock"),
        (["build-image", "--target"], "needed value", "inv --help build-image"),
        (
            ["run", "--print", "helm", "true"],
            "--print: 'helm' is none of docker, podman, compose, k8s; a command of several words wants quotes",
            'inv run --print docker "COMMAND"',
        ),
        (
            ["run", "python", "-m", "gr_model.train", "--config", "smoke"],
            "inv run takes its command as one argument: quotes are missing",
            'inv run "python -m gr_model.train --config smoke"',
        ),
        (
            ["run", "--devices=0", "--platform", "cann", "python", "train.py", "a b"],
            "quotes are missing",
            "inv run --devices=0 --platform cann \"python train.py 'a b'\"",
        ),
        (["run", "python x.py", "--config", "smoke"], "quotes are missing", 'inv run "python x.py --config smoke"'),
        (["run", "echo", "$HOME"], "quotes are missing", 'inv run "COMMAND"'),
        (["run", "python", "-c", "print(1)"], "quotes are missing", "inv run \"python -c 'print(1)'\""),
        (["run", "python x.py", "--echo", "--config", "smoke"], "quotes are missing", "inv run "),
        (["run", "python x.py", "--dry-run"], "inv run has no option '--dry-run'", "inv --help run"),
        (["run", "true", "--targett", "cpu"], "did you mean --target?", "inv --help run"),
        (["fetch-data"], "'name'", "inv --help fetch-data"),
        (["build-image", "--dry"], "--dry is invoke's own", "inv build-image --dry-run"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(typed: list[str], said: str, next_command: str) -> None:
    done = inv(*typed)
    assert done.returncode == 2 and done.stdout == "", done.stdout
    first, last = done.stderr.splitlines()
    assert first.startswith("error: ") and said in first
    assert last.startswith(f"  next:  {next_command}")


@pytest.mark.parametrize("behind", [["--echo"], ["--hide=both"], ["--hide", "out"], ["--warn-only", "--target", "cpu"]])
def test_options_of_invoke_may_stand_behind_the_command(behind: list[str]) -> None:
    every = Collection(tasks.run, tasks.test)
    check(["run", "--command=python x.py --a", *behind], every, Program().initial_context)
    check(["run", "python x.py --a", *behind], every, Program().initial_context)


@pytest.mark.parametrize("typed", [["--list"], ["--help", "build-image"], ["build-image", "--help"], ["opp", "-h"]])
def test_invoke_s_own_options_stay(typed: list[str]) -> None:
    done = inv(*typed)
    assert done.returncode == 0 and done.stderr == ""
