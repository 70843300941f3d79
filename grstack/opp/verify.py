"""Is every vendor sound? Each finding names the vendor, what is wrong and what to type."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grstack.opp import library
from grstack.opp.search import Candidate, Environment, conflicts

MANIFEST = "manifest.sha256"
INSTALLED = {MANIFEST, "scripts/uninstall.sh", "scripts/vendors.sh", "bin/set_env.bash"}  # written by the installer
SHOWN = 5  # of a long list
ELSEWHERE = "this machine has no driver; check it again where one is"
MACHINES = {"x86_64": "x64", "aarch64": "AArch64"}  # the names of ELF readers


@dataclass(frozen=True, kw_only=True)
class Problem:
    vendor: str
    severity: str  # error: it does not work as installed. note: it cannot be told, or is worth knowing
    message: str
    remedy: str = ""


def verify(environment: Environment, found: tuple[Candidate, ...]) -> tuple[Problem, ...]:
    problems = [problem for candidate in found for problem in _vendor(environment, candidate)]
    for serving in conflicts(found):
        assert serving.by is not None
        others = ", ".join(_name(other) for other in serving.shadowed)
        problems.append(
            Problem(
                vendor=serving.by.vendor.name,
                severity="error",
                message=f"{serving.operator} is also in {others}, which the runtime never asks for it",
                remedy=f"inv opp remove {serving.shadowed[0].vendor.name}",
            )
        )
    return tuple(problems)


def _name(candidate: Candidate) -> str:
    return f"{candidate.vendor.name} ({candidate.found_by})"


def _vendor(environment: Environment, candidate: Candidate) -> Iterator[Problem]:
    vendor = candidate.vendor

    def problem(message: str, remedy: str = "install its package again", severity: str = "error") -> Problem:
        return Problem(vendor=vendor.name, severity=severity, message=message, remedy=remedy)

    if candidate.not_asked:
        yield problem(f"the runtime does not ask it: {candidate.not_asked}", _remedy(candidate))
    if vendor.fault:
        return
    toolkit = _toolkit(environment.toolkit)
    if vendor.compiler and toolkit and vendor.emulated != (toolkit == "twin"):
        yield problem(
            f"it was built by {vendor.compiler}, but the toolkit in {environment.toolkit} is {toolkit}",
            "install the package of this platform",
        )
    for message in _files(Path(vendor.path)):
        yield problem(message)
    if not (Path(vendor.path) / MANIFEST).is_file():
        yield problem(f"no {MANIFEST}: the hashes of its files cannot be compared", "", "note")
    for file in _libraries(Path(vendor.path)):
        yield from (problem(*finding) for finding in _library(environment, Path(vendor.path), file))


def _remedy(candidate: Candidate) -> str:
    vendor = candidate.vendor
    if not Path(vendor.path).is_dir():
        return f"inv opp remove {vendor.name}, or install its package again"
    if candidate.found_by == "nothing":
        return (
            f"install its package again, export ASCEND_CUSTOM_OPP_PATH={vendor.path}, or inv opp remove {vendor.name}"
        )
    return "install its package again as root, or as the user that runs" if vendor.operators else "correct the variable"


def _toolkit(home: str) -> str:
    """`twin`, `cann`, or an empty text where that cannot be told."""
    places = [Path(home) / name for name in ("version.info", "version.cfg", "compiler/version.info")] if home else []
    texts = [place.read_text(errors="replace") for place in places if place.is_file()]
    if not texts:
        return ""
    return "twin" if any("platform=twin" in text.splitlines() for text in texts) else "cann"


def _files(root: Path) -> Iterator[str]:
    """What differs from the manifest, and links that lead nowhere."""
    manifest = root / MANIFEST
    if manifest.is_file():
        lines = (line.split("  ", 1) for line in manifest.read_text().splitlines() if "  " in line)
        listed = {name: digest for digest, name in lines}
        there = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() and not p.is_symlink()}
        changed = sorted(name for name in listed.keys() & there if _digest(root / name) != listed[name])
        for what, names in (
            ("changed since it was packed", changed),
            ("missing", sorted(listed.keys() - there)),
            ("not part of the package", sorted(there - listed.keys() - INSTALLED)),
        ):
            if names:
                yield f"{what}: {_some(names)}"
    dangling = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_symlink() and not p.exists())
    if dangling:
        yield f"links that lead nowhere: {_some(dangling)}"


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return str(error)


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _libraries(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.so") if path.is_file() and not path.is_symlink())


def _library(environment: Environment, root: Path, file: Path) -> Iterator[tuple[str, str, str]]:
    again = "install the package built for this machine and toolkit"
    try:
        found = library.read(file)
    except library.NotALibrary as error:
        yield f"{file.name} cannot be read: {error}", again, "error"
        return
    own = platform.machine()
    if found.machine != MACHINES.get(own, own):
        yield f"{file.name} is for {found.machine}, this machine is {own}", again, "error"
        return
    folders = [file.parent, root / "op_api/lib"]
    folders += [Path(environment.toolkit) / "lib64"] if environment.toolkit else []
    stubs = library.stub_folders(Path(environment.toolkit)) if environment.toolkit else ()
    closure = library.closure(found, folders, stubs)
    if closure.missing and not environment.toolkit:
        names = _some(closure.missing)
        yield f"{file.name} was not loaded: {names} come with the toolkit", "set ASCEND_HOME_PATH to check it", "note"
        return
    if closure.missing:
        yield f"{file.name} needs {_some(closure.missing)}, not found with {environment.toolkit}", again, "error"
    elif closure.unresolved:
        yield f"{file.name} has undefined symbols: {_some(closure.unresolved)}", again, "error"
    elif why := library.load_error(file, folders, stubs if closure.stubs else ()):
        yield f"{file.name} cannot be loaded: {why}", again, "error"
    elif closure.stubs:
        yield f"{file.name} was loaded with the toolkit's stubs of {_some(closure.stubs)}", ELSEWHERE, "note"
