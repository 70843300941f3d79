"""Resolve one (target, python, arch, CANN) to exact wheels with `uv pip compile`."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from grstack.errors import LockError, NetworkError
from grstack.locks._model import Lock, Package
from grstack.locks._wheels import best, ranking
from grstack.network import Settings
from grstack.run import CommandFailed, Runner
from grstack.spec import Target, Variant, Versions

UV_TIMEOUT = 900.0
INPUTS = re.compile(r"^# inputs: ([0-9a-f]{64})$", re.MULTILINE)  # in the locks of the tools, see `tools_hash`
_UNREACHABLE = ("Failed to fetch", "error sending request", "client error")


def requirement(name: str, version: str) -> str:
    """A line of a requirements file for a pin (`1.2`) or a specifier (`>=1.2`) of versions.yaml."""
    try:
        SpecifierSet(version)
    except InvalidSpecifier:
        return f"{name}=={version}"
    return f"{name}{version}"


def inputs_hash(versions: Versions, target: str, cann: str = "") -> str:
    """Hash of everything in versions.yaml that decides the lock of a target."""
    data = {
        "target": versions.for_cann(target, cann).model_dump(
            mode="json", include={"packages", "source_only", "bad_metadata", "excludes"}
        ),
        "resolve": versions.resolve.model_dump(mode="json"),
        "variants": [row.model_dump(mode="json") for row in versions.variants if target in row.targets],
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def resolve(
    versions: Versions, target: str, python: str, arch: str, cann: str = "", *, runner: Runner, settings: Settings
) -> Lock:
    """The lock of one combination. Needs the package index."""
    wanted = versions.for_cann(target, cann)
    found = _compile(versions, wanted, python, arch, runner=runner, settings=settings)
    variants = [row for row in versions.variants if target in row.targets]
    packages = _packages(versions, wanted, variants, found, python, arch)
    inputs = inputs_hash(versions, target, cann)
    return Lock(target=target, python=python, arch=arch, cann=cann, inputs=inputs, packages=tuple(packages))


def _compile(
    versions: Versions, target: Target, python: str, arch: str, *, runner: Runner, settings: Settings
) -> list[dict[str, Any]]:
    lines = [requirement(name, version) for name, version in target.packages.items()]
    # an exact pin is also an override: torch_npu asks for a local version that the package index does not have
    pins = [line for line in lines if "==" in line]
    with tempfile.TemporaryDirectory(prefix="grstack-lock-") as name:
        folder = Path(name)
        files = {"requirements.in": lines, "overrides.txt": pins, "excludes.txt": list(target.excludes)}
        for filename, content in files.items():
            (folder / filename).write_text("\n".join(content) + "\n", encoding="utf-8")
        out = folder / "pylock.toml"
        argv = [
            *uv(),
            "pip",
            "compile",
            str(folder / "requirements.in"),
            "--no-config",
            "--quiet",
            "--no-header",
            "--no-python-downloads",
            "--format",
            "pylock.toml",
            "--output-file",
            str(out),
            "--python-version",
            python,
            "--python-platform",
            f"{arch}-manylinux_{versions.resolve.glibc.replace('.', '_')}",
            "--only-binary",
            ":all:",
            "--exclude-newer",
            versions.resolve.before.isoformat(),
            "--overrides",
            str(folder / "overrides.txt"),
            "--excludes",
            str(folder / "excludes.txt"),
        ]
        run_uv(argv, runner=runner, settings=settings)
        return list(tomli.loads(out.read_text(encoding="utf-8")).get("packages", []))


def uv() -> list[str]:
    return [sys.executable, "-m", "uv"]


def run_uv(argv: list[str], *, runner: Runner, settings: Settings) -> str:
    """Runs uv; what it says in an error is shown without credentials."""
    try:
        return runner.capture(argv, env=settings.environment(), timeout=UV_TIMEOUT)
    except CommandFailed as error:
        said = "\n".join(f"  {settings.redact(line)}" for line in error.tail)
        if any(phrase in said for phrase in _UNREACHABLE):
            raise NetworkError(
                f"the package index cannot be reached:\n{said}",
                where="index of PIP_INDEX_URL, pip.conf or ~/.config/grstack/network.yaml",
                next_command="inv doctor",
            ) from None
        raise LockError(
            f"the package index gives no solution:\n{said}", where="versions.yaml", next_command="inv lock"
        ) from None


def _packages(
    versions: Versions, target: Target, variants: list[Variant], found: list[dict[str, Any]], python: str, arch: str
) -> list[Package]:
    ranks = ranking(python, arch, versions.resolve.glibc)
    drops = [pattern for row in variants for pattern in row.drops]
    bad_metadata = {canonicalize_name(name) for name in target.bad_metadata}
    source_only = {canonicalize_name(name) for name in target.source_only}
    packages = []
    for entry in found:
        name = canonicalize_name(entry["name"])
        files = _files(entry)
        filename = best(files, ranks)
        if filename is None:
            raise LockError(
                f"{name} {entry['version']} has no wheel for Python {python} on {arch}",
                where="versions.yaml",
                next_command="take another version, or a row under unsupported, then inv lock",
            )
        packages.append(
            Package(
                name=name,
                version=entry["version"],
                filename=filename,
                sha256=files[filename],
                no_deps=name in bad_metadata,
                plain_only=any(fnmatch.fnmatchcase(name, pattern) for pattern in drops),
                installed=name not in source_only,
            )
        )
    for row in variants:
        filename = best(row.wheels, ranks)
        if filename is None:
            raise LockError(
                f"no {row.variant} wheel of {row.package} for Python {python} on {arch}",
                where="versions.yaml, variants",
                next_command="add its wheel there, then inv lock",
            )
        packages.append(
            Package(
                name=canonicalize_name(row.package),
                version=f"{row.version}+{row.local}",
                filename=filename,
                sha256=row.wheels[filename],
                variant=row.variant,
            )
        )
    return sorted(packages, key=lambda package: (package.name, package.variant != "plain"))


def _files(entry: Mapping[str, Any]) -> dict[str, str]:
    """Wheel file name to sha256, of one [[packages]] table of a pylock.toml."""
    files: dict[str, str] = {}
    for wheel in entry.get("wheels", []):
        source = wheel.get("name") or wheel.get("path") or wheel.get("url", "")
        filename = unquote(Path(urlsplit(source).path).name)
        sha256 = wheel.get("hashes", {}).get("sha256")
        if sha256:
            files[filename] = sha256
    return files


def tools_hash(versions: Versions, *, dev: bool) -> str:
    """Hash of everything in versions.yaml that decides a lock of the tools."""
    tools = versions.tools.model_dump(mode="json", exclude=set() if dev else {"dev"})
    data = {"tools": tools, "before": versions.resolve.before.isoformat()}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def resolve_tools(versions: Versions, *, dev: bool, runner: Runner, settings: Settings) -> str:
    """Requirements with hashes for the toolchain itself (and its tests), for every platform and Python it runs on."""
    tools = versions.tools
    names = {**tools.packages, **(tools.dev if dev else {})}
    with tempfile.TemporaryDirectory(prefix="grstack-lock-") as folder:
        source = Path(folder) / "requirements.in"
        source.write_text("\n".join(requirement(*item) for item in names.items()) + "\n", encoding="utf-8")
        argv = [
            *uv(),
            "pip",
            "compile",
            str(source),
            "--no-config",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--no-python-downloads",
            "--universal",
            "--generate-hashes",
            "--python-version",
            tools.python,
            "--exclude-newer",
            versions.resolve.before.isoformat(),
        ]
        body = run_uv(argv, runner=runner, settings=settings)
    inputs = tools_hash(versions, dev=dev)
    return f"# Generated by 'inv lock' from versions.yaml; do not edit.\n# inputs: {inputs}\n{body}"
