"""The Ascend home that the emulation lives in, and the variables that make a process use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGED = Path(__file__).resolve().parent / "home"


class NoHome(RuntimeError):
    """There is no emulated Ascend home to use."""


def version_info(home: Path) -> dict[str, str]:
    """`key=value` lines of the home's version.info; empty if there is none."""
    file = home / "version.info"
    if not file.is_file():
        return {}
    pairs = (line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def is_twin(home: Path) -> bool:
    return version_info(home).get("platform") == "twin" and (home / "lib64/libascendcl.so").is_file()


def find_home(environment: Mapping[str, str]) -> Path:
    """The home packed in this wheel; where only the Python files are installed (images), ASCEND_HOME_PATH.

    Raises:
        NoHome: neither is an emulated home.
    """
    if is_twin(PACKAGED):
        return PACKAGED
    named = environment.get("ASCEND_HOME_PATH", "")
    if named and is_twin(Path(named)):
        return Path(named)
    where = f"ASCEND_HOME_PATH={named} is not one" if named else "ASCEND_HOME_PATH is not set"
    raise NoHome(
        f"no emulated Ascend home: {PACKAGED} is not there and {where}; "
        "install the wheel ascend-twin (pip install ascend_twin-*.whl), or source the home's set_env.sh"
    )


def variables(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What `environment` must be given so that a new process finds `home`; nothing is added to a path twice.

    The folder of this interpreter comes first in PATH, so that `python` and `torchrun` are those of the environment
    that the wheel is installed in, also when that environment was not activated.
    """
    path = _prepended(str(home / "tools/profiler/bin"), environment.get("PATH", os.defpath))
    path = _prepended(str(home / "bin"), path)
    return {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_TOOLKIT_HOME": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "LD_LIBRARY_PATH": _prepended(str(home / "lib64"), environment.get("LD_LIBRARY_PATH", "")),
        "PATH": _prepended(str(Path(sys.executable).parent), path),
    }


def _prepended(entry: str, path: str) -> str:
    entries = [part for part in path.split(os.pathsep) if part and part != entry]
    return os.pathsep.join([entry, *entries])
