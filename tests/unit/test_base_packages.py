"""docker/base/dnf.sh, on a machine whose dnf is a script: what is installed, and by which bundle."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "docker/base"


@pytest.mark.parametrize("bundle", ["", "a certificate"])
def test_dnf_gets_every_package_and_the_bundle(tmp_path: Path, bundle: str) -> None:
    dnf = tmp_path / "dnf"
    dnf.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    dnf.chmod(0o755)
    ca = tmp_path / "ca.pem"
    ca.write_text(bundle)
    packages = BASE / "packages-rpm.txt"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(BASE / "dnf.sh"), str(ca), str(packages)], env=env, check=True)
    words = (tmp_path / "words").read_text().split()
    assert words[words.index("install") + 1 :] == packages.read_text().split()
    assert (f"--setopt=*.sslcacert={ca}" in words) == bool(bundle)


def test_both_lists_of_packages_hold_the_same_tools() -> None:
    """By their names in Debian; a C++ compiler, Python's headers and the libraries are called otherwise by RPM."""
    rpm = {"gcc-c++": "g++", "python3-devel": "python3-dev", "libgomp": "libgomp1", "libstdc++": "libstdc++6"}
    rpm |= {"procps-ng": "procps"}
    debian = set((BASE / "packages.txt").read_text().split()) - {"python3-venv"}  # part of Python there
    assert {rpm.get(name, name) for name in (BASE / "packages-rpm.txt").read_text().split()} == debian


def test_ubuntu_s_base_has_a_compiler_that_builds_operators() -> None:
    """Its own g++ is older than the one that opbuild asks for."""
    found = (ROOT / "twin/opbuild/host_compiler.py").read_text()
    (oldest,) = re.findall(r"(?m)^OLDEST = (\d+)", found)
    assert f"g++-{oldest}" in (BASE / "packages-ubuntu.txt").read_text().split()
