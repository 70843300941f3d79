"""Compiled kernels on disk, by what they were compiled from: below TRITON_CACHE_DIR, where Triton keeps its own.

Processes that want the same kernel at the same time, as the ranks of one host do, wait for the first to compile it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import filelock  # PyTorch brings it

from gr_ops.cuda import cubins
from gr_ops.cuda.cubins.roles import Fact, needed
from gr_ops.cuda.kernel import Kernel

log = logging.getLogger(__name__)
PACKAGE = Path(__file__).resolve().parents[2]  # gr_ops
# Without gr_ops/__init__.py, which loads PyTorch and the library.
PROGRAM = """
import importlib, sys, types
package = types.ModuleType("gr_ops")
package.__path__ = [sys.argv[1]]
sys.modules["gr_ops"] = package
importlib.import_module("gr_ops.cuda.cubins.compiler").main()
"""


@dataclass(frozen=True)
class Compiled:
    cubin: bytes
    function: str
    threads: int
    shared: int  # bytes
    types: tuple[str, ...]  # of each argument, Triton's; constants are "constexpr"
    tiles: tuple[dict[str, Any], ...]  # of each tile, how the driver describes it
    places: tuple[tuple[int, int], ...]  # offset and bytes of each parameter of the function


def find(kernel: Kernel, facts: Sequence[Fact], options: dict[str, int]) -> Compiled:
    """The kernel for arguments of such facts, compiled now if it has not been."""
    found = _kept(kernel, facts, options)
    if found is not None:
        return found
    with _held(_of_kernel(kernel, f"{_key(facts, options)}.lock")):
        found = _kept(kernel, facts, options)  # by who held it before
        return found if found is not None else _made(kernel, facts, options)


def _kept(kernel: Kernel, facts: Sequence[Fact], options: dict[str, int]) -> Compiled | None:
    roles = _read(_of_kernel(kernel, "roles.json"))
    made = roles and _read(_of_kernel(kernel, f"{_key(needed(facts, roles), options)}.json"))
    return _compiled(made) if made else None


def _made(kernel: Kernel, facts: Sequence[Fact], options: dict[str, int]) -> Compiled:
    log.info("%s is compiled for Hopper by Triton %s; kept in %s", kernel.name, cubins.version(), folder())
    made = _compile(kernel, facts, options)
    _write(_of_kernel(kernel, "roles.json"), made["roles"])
    _write(_of_kernel(kernel, f"{_key(needed(facts, made['roles']), options)}.json"), made)
    return _compiled(made)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Alone in this block of all processes that share the folder, where it can be written and has locks at all."""
    lock = filelock.FileLock(path)
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _compiled(made: dict[str, Any]) -> Compiled:
    return Compiled(
        base64.b64decode(made["cubin"]),
        made["function"],
        made["threads"],
        made["shared"],
        tuple(made["types"]),
        tuple(made["tiles"]),
        tuple((offset, size) for offset, size in made["places"]),
    )


def _key(facts: Sequence[Fact], options: dict[str, int]) -> str:
    return hashlib.sha256(json.dumps([facts, sorted(options.items())]).encode()).hexdigest()[:32]


def _of_kernel(kernel: Kernel, name: str) -> Path:
    return folder() / f"{kernel.module.replace('.', '-')}-{kernel.name}-{name}"


@cache
def folder() -> Path:
    """One for each state of the kernels' sources and each compiler."""
    sources = hashlib.sha256(str(cubins.version()).encode())
    for path in sorted((PACKAGE / "cuda").rglob("*.py")):
        sources.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    root = os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache"
    return Path(root) / f"gr_ops-{sources.hexdigest()[:16]}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write(path: Path, content: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(content, file)
        os.replace(file.name, path)
    except OSError as error:
        log.warning("%s cannot be written (%s): kernels are compiled anew in each process", path.parent, error.strerror)


def _compile(kernel: Kernel, facts: Sequence[Fact], options: dict[str, int]) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, (str(cubins.folder()), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("TRITON_INTERPRET", None)
    request = {"module": kernel.module, "name": kernel.name, "facts": list(facts), "options": options}
    with tempfile.TemporaryDirectory() as empty:  # the current folder is on the path too
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(PACKAGE)],
            input=json.dumps(request) + "\n",
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(
            f"{kernel.module}.{kernel.name} was not compiled by the Triton in {cubins.folder()}: "
            f"{done.stderr.strip()[-2000:]}\n  next: unset {cubins.FOLDER}, for this process's own kernels"
        )
    made: dict[str, Any] = json.loads(done.stdout)
    if made["triton"] != cubins.version():
        raise RuntimeError(f"Triton {made['triton']} compiled {kernel.name}, {cubins.folder()} has {cubins.version()}")
    return made
