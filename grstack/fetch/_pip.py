"""Download one locked wheel with `pip download`, also for another Python or architecture than the host's."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from grstack.errors import DiskFull, GrstackError, NetworkError
from grstack.fetch._cache import mismatch
from grstack.locks import Package
from grstack.network import Settings
from grstack.run import CommandFailed, Runner

TIMEOUT = 3600.0
_UNREACHABLE = re.compile(
    r"Name or service not known|Temporary failure in name resolution|Connection refused|No route to host"
    r"|Network is unreachable|timed out|Max retries exceeded|ProxyError|SSLError|CERTIFICATE_VERIFY_FAILED",
    re.IGNORECASE,
)


def download(
    package: Package, folder: Path, *, python: str, runner: Runner, settings: Settings, url: str | None = None
) -> Path:
    """The wheel in `folder`, as pip got it (and checked its hash). `url` is used in place of the index."""
    requirement = f"{package.name} @ {url} --hash=sha256:{package.sha256}" if url else package.requirement
    with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="grstack-", encoding="utf-8") as listed:
        listed.write(requirement + "\n")
        listed.flush()
        argv = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--no-input",
            "--quiet",
            "--progress-bar",
            "off",
            "--retries",
            "3",
            "--resume-retries",
            "5",
            "--dest",
            str(folder),
            *_machine(package, python),
            "--requirement",
            listed.name,
        ]
        try:
            runner.capture(argv, env=settings.environment(), timeout=TIMEOUT)
        except CommandFailed as error:
            raise _failure(package, [settings.redact(line) for line in error.tail]) from None
    return next(folder.glob("*.whl"))


def _machine(package: Package, python: str) -> list[str]:
    """Flags that make pip take this file, whatever machine it runs on: the file's own platforms."""
    _, _, _, tags = parse_wheel_filename(package.filename)
    short = python.replace(".", "")
    platforms = sorted({tag.platform for tag in tags})
    flags = ["--implementation", "cp", "--python-version", python]
    for abi in (f"cp{short}", "abi3", "none"):
        flags += ["--abi", abi]
    for platform in platforms:
        flags += ["--platform", platform]
    return flags


def _failure(package: Package, tail: list[str]) -> GrstackError:
    said = "\n".join(tail)
    if "DO NOT MATCH THE HASHES" in said or "Hashes are required" in said:
        got = re.search(r"Got\s+([0-9a-f]{64})", said)
        return mismatch(package, got.group(1) if got else "")
    if "No space left on device" in said or "Errno 28" in said:
        return DiskFull(f"no space left while downloading {package.filename}", next_command="df -h")
    indented = "\n".join(f"  {line}" for line in tail[-8:])
    what = "the package index cannot be reached" if _UNREACHABLE.search(said) else "the package index does not give it"
    return NetworkError(
        f"cannot download {package.filename}: {what}\n{indented}",
        where="index of PIP_INDEX_URL, pip.conf or ~/.config/grstack/network.yaml",
        next_command="inv doctor",
    )
