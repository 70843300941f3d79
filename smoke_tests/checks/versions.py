"""Distributions as importlib.metadata finds them in this image, against the lock and the components' wheels."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from smoke_tests.check import CheckFailed, Context, Outcome

INSTALLERS = {"pip", "setuptools", "wheel"}  # a virtual environment may bring them


def run(context: Context) -> Outcome:
    expected = expected_versions(context.lock, context.manifest)
    found = installed(expected, environment_folders(), os.environ.get("ASCEND_HOME_PATH", ""))
    faults = differences(expected, found, plain_only(context.lock), set(context.manifest.get("devel_packages", ())))
    if faults:
        raise CheckFailed(f"{len(faults)} differences from the lock", faults)
    shown = ("torch", "torch-npu", "fbgemm-gpu-cpu", "torchrec", "gr-ops")
    return Outcome(
        f"{len(expected.keys() & found.keys())} distributions as locked",
        [f"{n} {found[n][0]}" for n in shown if n in found],
    )


def expected_versions(lock: dict[str, Any], manifest: dict[str, Any]) -> dict[str, set[str]]:
    """Name -> versions that are right. A package with a `+cpu` variant may be there as either."""
    expected: dict[str, set[str]] = {}
    for package in lock["packages"]:
        if package.get("installed", True):
            expected.setdefault(normalised(package["name"]), set()).add(package["version"])
    for files in manifest.get("files", {}).values():
        for path in files:
            if path.endswith(".whl"):
                name, version = path.rsplit("/", 1)[-1].split("-")[:2]
                expected[normalised(name)] = {version}
    return expected


def plain_only(lock: dict[str, Any]) -> set[str]:
    """What the plain torch alone needs: its CUDA libraries."""
    return {normalised(package["name"]) for package in lock["packages"] if package.get("plain_only")}


def installed_versions(folders: list[str]) -> dict[str, list[str]]:
    """Name -> the version of each copy in `folders`."""
    found: dict[str, list[str]] = {}
    for distribution in importlib.metadata.distributions(path=folders):
        found.setdefault(normalised(distribution.metadata["Name"]), []).append(distribution.version)
    return found


def installed(expected: Mapping[str, object], folders: list[str], toolkit: str) -> dict[str, list[str]]:
    """What `folders` hold. Of those of CANN's toolkit, which set_env.sh puts first (its compilers and tools are
    distributions too), only what would hide a package of the lock."""
    theirs = [folder for folder in folders if toolkit and is_below(folder, toolkit)]
    found = installed_versions([folder for folder in folders if folder not in theirs])
    for name, versions in installed_versions(theirs).items():
        if name in expected:
            found.setdefault(name, []).extend(versions)
    return found


def is_below(folder: str, place: str) -> bool:
    """By name, or where links lead: a toolkit's folders are links into that of its release."""
    names = (os.path.abspath(folder), os.path.realpath(folder))
    places = (os.path.abspath(place), os.path.realpath(place))
    return any(os.path.commonpath((name, there)) == there for name in names for there in places)


def environment_folders() -> list[str]:
    """Where a new interpreter looks: the environment's site-packages, and the components' where they stand apart.

    This process's own sys.path is no guide: setuptools, once imported, has added its vendored copies to it.
    """
    code = "import json, sys; print(json.dumps(sys.path))"
    path = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    folders = {
        str(Path(folder).resolve()): folder for folder in reversed(path) if folder
    }  # "" is the working directory
    return list(reversed(folders.values()))


def differences(
    expected: dict[str, set[str]],
    found: dict[str, list[str]],
    plain_only: Set[str],
    devel_only: Set[str] = frozenset(),
) -> list[str]:
    """A line for each fault. `devel_only`: what the devel variant has and the plain image has not: all or none."""
    faults = []
    if not devel_only & found.keys():
        expected = {name: right for name, right in expected.items() if name not in devel_only}
    without_cuda = any(version.endswith("+cpu") for version in found.get("torch", []))
    for name in sorted(expected.keys() | found.keys()):
        right, there = expected.get(name), found.get(name, [])
        if right is None:
            if name not in INSTALLERS:
                faults.append(f"{name} {', '.join(there)} is installed but not locked")
        elif len(there) > 1:
            faults.append(f"{name} is installed {len(there)} times: {', '.join(there)}")
        elif not there:
            if not (without_cuda and name in plain_only):
                faults.append(f"{name} {' or '.join(sorted(right))} is locked but not installed")
        elif there[0] not in right:
            faults.append(f"{name} is {there[0]}, locked is {' or '.join(sorted(right))}")
    return faults


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
