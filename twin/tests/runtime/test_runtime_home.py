"""The installed Ascend home: recipes/twin/install.sh, set_env.sh, and torch_npu's rules for ASCEND_HOME_PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin

REPOSITORY = Path(__file__).resolve().parents[3]


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_") and k != "LD_LIBRARY_PATH"}
    return subprocess.run(
        ["bash", "-c", script], env={**clean, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def artefact(lib64: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What recipes/twin/build.sh leaves, from libraries that are built already."""
    out = tmp_path_factory.mktemp("artefact")
    shutil.copytree(lib64, out / "lib64")
    shutil.copytree(lib64.parent / "bin", out / "bin")
    shutil.copytree(REPOSITORY / "twin/runtime/include/twin", out / "include/twin")
    (out / "tools/opbuild").mkdir(parents=True)
    shutil.copy(REPOSITORY / "twin/set_env.sh", out)
    for part in (".", "runtime", "compiler", "opp"):
        (out / part).mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / "twin/runtime/version.info", out / part)
    return out


def install(artefact: Path, home: Path) -> subprocess.CompletedProcess[str]:
    return shell(str(REPOSITORY / "recipes/twin/install.sh"), GRSTACK_ARTEFACT=str(artefact), ASCEND_HOME=str(home))


def test_installed_home_satisfies_torch_npu(artefact: Path, tmp_path: Path) -> None:
    home = tmp_path / "usr/local/Ascend/ascend-toolkit/latest"
    done = install(artefact, home)
    assert done.returncode == 0, done.stderr
    ask = f"source {home}/set_env.sh && {sys.executable} -c 'import torch, torch_npu; print(torch.npu.device_count())'"
    done = shell(ask)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    shutil.rmtree(home / "compiler")
    assert shell(ask).returncode != 0, "the check that this test relies on is gone"


def test_installing_again_keeps_operators_and_refuses_a_stranger(artefact: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert install(artefact, home).returncode == 0
    vendor = home / "opp/vendors/someone/op_api/lib"
    vendor.mkdir(parents=True)
    (home / "lib64/libstale.so").touch()
    assert install(artefact, home).returncode == 0
    assert vendor.is_dir() and not (home / "lib64/libstale.so").exists()
    assert not list(home.glob(".*.new"))

    stranger = tmp_path / "cann"
    stranger.mkdir()
    (stranger / "version.info").write_text("Version=8.3.RC1\n")
    done = install(artefact, stranger)
    assert done.returncode == 1 and "is not the twin" in done.stderr
    assert [p.name for p in stranger.iterdir()] == ["version.info"]


def test_set_env_adds_once_and_leaves_no_empty_entry(artefact: Path) -> None:
    twice = f"source {artefact}/set_env.sh && source {artefact}/set_env.sh && echo $LD_LIBRARY_PATH $ASCEND_OPP_PATH"
    assert shell(twice).stdout.split() == [f"{artefact}/lib64", f"{artefact}/opp"]
    assert shell(twice, LD_LIBRARY_PATH="/a:/b").stdout.split()[0] == f"{artefact}/lib64:/a:/b"
