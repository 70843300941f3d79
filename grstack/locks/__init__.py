"""What exactly goes into an image: every wheel with its sha256, a file per (target, python, arch, CANN).

The resolver is imported on first use only: reading a lock must stay fast.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from rich.console import Console

from grstack.errors import LockError, UnsupportedError, UsageError
from grstack.files import write_atomically
from grstack.locks._model import Build, Lock, Package, lock_name, lock_path, parse
from grstack.network import Settings
from grstack.network import load as load_settings
from grstack.run import Runner
from grstack.spec import Versions

TOOLS = "tools"
TOOLS_DEV = "tools-dev"

__all__ = ["Build", "Lock", "Package", "check", "check_all", "current", "lock_all", "lock_name", "lock_path", "read"]


def read(root: Path, target: str, python: str, arch: str, cann: str = "") -> Lock:
    """The committed lock of a combination. Raises LockError where it is missing or malformed."""
    path = lock_path(root, target, python, arch, cann)
    lock = parse(path)
    if (lock.target, lock.python, lock.arch, lock.cann) != (target, python, arch, cann):
        raise LockError(f"the lock is for {lock.name}", where=str(path), next_command=f"inv lock --only {path.stem}")
    return lock


def current(root: Path, versions: Versions, target: str, python: str, arch: str, cann: str = "") -> Lock:
    """The same, after `check`."""
    lock = read(root, target, python, arch, cann)
    check(lock, versions)
    return lock


def check(lock: Lock, versions: Versions) -> None:
    """Raises where the combination cannot exist, or where versions.yaml has changed since the lock was made."""
    from grstack.locks._resolve import inputs_hash

    reason = versions.refusal(lock.target, lock.python, lock.arch)
    if reason:
        raise UnsupportedError(
            f"{lock.name} cannot exist: {reason}", where="versions.yaml, unsupported", next_command="inv lock"
        )
    if lock.inputs != inputs_hash(versions, lock.target, lock.cann):
        raise _stale(Path(f"{lock.name}.json"))


def check_all(root: Path, versions: Versions) -> list[str]:
    """The names of all locks, each found current. Raises for the first that is missing, stale or left over."""
    from grstack.locks import _resolve

    wanted = _wanted(versions, None)
    for name, combination in wanted.items():
        if combination is not None:
            check(read(root, *combination), versions)
            continue
        path = root / "locks" / f"{name}.txt"
        if not path.is_file():
            raise LockError("there is no lock", where=str(path), next_command=f"inv lock --only {name}")
        stated = _resolve.INPUTS.search(path.read_text(encoding="utf-8"))
        if stated is None or stated[1] != _resolve.tools_hash(versions, dev=name == TOOLS_DEV):
            raise _stale(path)
    others = {path for path in (root / "locks").iterdir() if path.stem not in wanted}
    if others:
        names = ", ".join(sorted(path.name for path in others))
        raise LockError(f"versions.yaml asks for no such lock: {names}", where="locks/", next_command="inv lock")
    return list(wanted)


def _stale(path: Path) -> LockError:
    return LockError(
        "versions.yaml has changed since this lock was made",
        where=f"locks/{path.name}",
        next_command=f"inv lock --only {path.stem}",
    )


def lock_all(
    root: Path,
    versions: Versions,
    only: Collection[str] | None = None,
    *,
    settings: Settings | None = None,
    console: Console | None = None,
) -> list[Path]:
    """Resolves and writes every lock, or those named in `only` (`npu-py3.11-x86_64`, `tools`, `tools-dev`).

    Nothing is written before all of them are resolved. Returns the written paths.
    """
    from grstack.locks import _resolve

    console = console or Console(stderr=True)
    runner = Runner(console)
    settings = settings or load_settings()
    wanted = _wanted(versions, only)
    texts: dict[Path, str] = {}
    for number, name in enumerate(wanted, 1):
        console.print(f"[{number}/{len(wanted)}] {name}", highlight=False)
        combination = wanted[name]
        if combination is None:
            path = root / "locks" / f"{name}.txt"
            texts[path] = _resolve.resolve_tools(versions, dev=name == TOOLS_DEV, runner=runner, settings=settings)
        else:
            path = lock_path(root, *combination)
            texts[path] = _resolve.resolve(versions, *combination, runner=runner, settings=settings).text()
    for path, text in texts.items():
        write_atomically(path, text)
    if only is None:
        _remove_others(root, set(texts))
    return list(texts)


def _wanted(versions: Versions, only: Collection[str] | None) -> dict[str, tuple[str, str, str, str] | None]:
    known: dict[str, tuple[str, str, str, str] | None] = {
        lock_name(*combination): combination for combination in versions.locked()
    }
    known |= {TOOLS: None, TOOLS_DEV: None}
    if only is None:
        return known
    for name in only:
        if name not in known:
            for target in versions.targets:
                for python in versions.pythons.supported:
                    for arch in versions.architectures:
                        reason = versions.refusal(target, python, arch)
                        if reason and name == lock_name(target, python, arch):
                            raise UnsupportedError(
                                f"{name} cannot exist: {reason}",
                                where="versions.yaml, unsupported",
                                next_command="inv lock",
                            )
            raise UsageError.unknown("lock", name, known, next_command="inv lock")
    return {name: known[name] for name in known if name in only}


def _remove_others(root: Path, kept: set[Path]) -> None:
    """A combination that versions.yaml no longer has leaves no lock behind."""
    for path in (root / "locks").glob("*-py*.json"):
        if path not in kept and _is_lock(path):
            path.unlink()


def _is_lock(path: Path) -> bool:
    """Whether `inv lock` wrote the file: it bears the name that its content says."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return path.stem == lock_name(content["target"], content["python"], content["arch"], content.get("cann", ""))
    except (OSError, ValueError, KeyError, TypeError):
        return False
