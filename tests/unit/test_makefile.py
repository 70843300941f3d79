"""`make X` where the bootstrap is a script: a moved checkout, make's own --dry-run, and what reaches the task."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As the real one: what it makes names its own place, as the first line of a console script does.
BOOTSTRAP = """#!/bin/sh
echo bootstrapped
rm -rf .venv
mkdir -p .venv/bin
ln -s "$(command -v sh)" .venv/bin/python
printf '#!%s/.venv/bin/python\\necho "inv $*"\\n' "$PWD" > .venv/bin/inv
chmod +x .venv/bin/inv
(cd .venv && pwd -P) > .venv/made-in
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    (place / "locks").mkdir(parents=True)
    shutil.copy2(ROOT / "Makefile", place)
    (place / "bootstrap.sh").write_text(BOOTSTRAP)
    (place / "locks/tools-dev.txt").touch()
    return place


def make(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", "-C", str(place), *words], capture_output=True, text=True, check=False, env=env)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(("inv ", "bootstrapped"))]


def test_the_environment_is_made_once(checkout: Path) -> None:
    assert said(make(checkout, "smoke")) == ["bootstrapped", "inv smoke"]
    assert said(make(checkout, "build-image", "ARGS=--platform cann")) == ["inv build-image --platform cann"]


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_moved_or_copied_checkout_makes_its_own(checkout: Path, how: str) -> None:
    """The commands of the old one start an interpreter that is gone, or another checkout's."""
    make(checkout, "help")
    other = checkout.with_name("other")
    if how == "moved":
        checkout.rename(other)
    else:
        shutil.copytree(checkout, other, symlinks=True)
    done = make(other, "smoke")
    assert said(done) == ["bootstrapped", "inv smoke"], done.stderr
    assert said(make(other, "smoke")) == ["inv smoke"]


def test_an_environment_that_several_worktrees_share_is_kept(checkout: Path) -> None:
    make(checkout, "help")
    worktree = checkout.with_name("worktree")
    shutil.copytree(checkout, worktree, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
    (worktree / ".venv").symlink_to(checkout / ".venv")
    assert said(make(worktree, "smoke")) == ["inv smoke"]


@pytest.mark.parametrize("flag", ["--dry-run", "-n"])
def test_a_dry_run_reaches_the_tasks_that_have_one(checkout: Path, flag: str) -> None:
    done = make(checkout, "build-image", flag, "ARGS=--engine none")
    assert said(done) == ["bootstrapped", "inv build-image --dry-run --engine none"]
    refused = make(checkout, "smoke", flag)
    assert refused.returncode == 2 and said(refused) == []
    assert "next: make build-image --dry-run" in refused.stderr


def test_the_real_bootstrap_notes_its_place() -> None:
    assert "pwd -P) > .venv/made-in" in (ROOT / "bootstrap.sh").read_text(encoding="utf-8")
