"""bootstrap.sh makes .venv; what stood there and is not its own is moved aside, not removed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!/bin/sh
# A Python whose venvs hold a pip that installs nothing, and inv. What is in `refuses` fails; `asked` lists commands.
echo "$*" >> asked
if [ -e refuses ] && echo "$*" | grep -qf refuses; then exit 1; fi
case "$*" in
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && printf x > .venv/bin/inv && chmod +x .venv/bin/inv ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "bootstrap.sh", tmp_path)
    (tmp_path / "locks").mkdir()
    shutil.copy(ROOT / "locks/tools-dev.txt", tmp_path / "locks")
    (tmp_path / "python").write_text(FAKE)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def bootstrap(checkout: Path) -> str:
    env = {**os.environ, "GRSTACK_TOOLS_PYTHON": str(checkout / "python")}
    done = subprocess.run(["sh", "bootstrap.sh"], cwd=checkout, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv/bin/inv").exists()
    return done.stdout


def asides(checkout: Path) -> list[Path]:
    return list(checkout.glob(".venv.*"))


def test_its_own_is_made_anew(checkout: Path) -> None:
    bootstrap(checkout)
    (checkout / ".venv/old").touch()
    bootstrap(checkout)
    assert not (checkout / ".venv/old").exists() and asides(checkout) == []


@pytest.mark.parametrize("link", [False, True])
def test_that_of_somebody_else_is_moved_aside(checkout: Path, link: bool) -> None:
    place = checkout / "elsewhere" if link else checkout / ".venv"
    (place / "bin").mkdir(parents=True)
    (place / "bin/mine").write_text("mine")
    if link:
        (place / ".grstack-tools").touch()  # another checkout's
        (checkout / ".venv").symlink_to(place)
    told = bootstrap(checkout)
    (aside,) = asides(checkout)
    assert (aside / "bin/mine").read_text() == "mine" and aside.name in told
    assert (place / "bin/mine").exists() == link


def test_uv_installs_by_hash_what_pip_installs_where_it_cannot(checkout: Path) -> None:
    bootstrap(checkout)
    asked = (checkout / "asked").read_text().splitlines()
    assert len(asked) == 5 and "-m pip install" in asked[3] and "uv pip install" in asked[4]
    first = (checkout / ".venv/first.txt").read_text()
    names = {line.split("==")[0] for line in first.splitlines() if not line.startswith(" ")}
    assert names == {"platformdirs", "pyyaml", "uv"} and first.count("--hash") >= 3
    assert all("--require-hashes" in line for line in asked[3:])

    (checkout / "asked").unlink()
    (checkout / "refuses").write_text("uv pip install")
    assert "pip tries" in bootstrap(checkout)
    last = (checkout / "asked").read_text().splitlines()[-1]
    assert "-m pip install" in last and "-r locks/tools-dev.txt" in last and "--require-hashes" in last


def test_without_an_index_nothing_is_left(checkout: Path) -> None:
    (checkout / "refuses").write_text("pip install")
    with pytest.raises(AssertionError, match="check the package index"):
        bootstrap(checkout)
    assert not (checkout / ".venv").exists()
