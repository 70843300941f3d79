"""The C++ compiler that builds operators for the emulated cores: g++ of this machine, or a newer one beside it."""

from __future__ import annotations

import os
import shutil
import subprocess

COMPILER = "TWIN_CXX"
OLDEST = 12  # the first g++ that knows half, which is _Float16
NAMES = ("g++", "g++-12", "g++-13", "g++-14", "g++-15")


class CompilerError(Exception):
    pass


def find() -> str:
    """TWIN_CXX, else the first of `NAMES` on PATH that is new enough. CompilerError says what to install."""
    named = os.environ.get(COMPILER, "")
    there = [name for name in ([named] if named else NAMES) if shutil.which(name)]
    versions = {name: _version(name) for name in there}
    for name, version in versions.items():
        if int(version.partition(".")[0]) >= OLDEST:
            return name
    found = ", ".join(f"{name} is {version}" for name, version in versions.items()) or f"no {named or NAMES[0]}"
    raise CompilerError(
        f"kernels' half needs g++ {OLDEST} or later: {found} on this machine; "
        f"next: apt-get install g++-{OLDEST}, or {COMPILER}=PROGRAM"
    )


def _version(program: str) -> str:
    command = [program, "-dumpfullversion", "-dumpversion"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "0"
