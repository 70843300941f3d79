"""What a shared library is, needs and offers, read from its ELF tables; and where the loader would look."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from grstack.ask import ask

DRIVER = "libascend_hal.so"  # of the driver, which no toolkit brings


class NotALibrary(Exception):
    """The file cannot be read, or is no ELF shared library."""


@dataclass(frozen=True, kw_only=True)
class Library:
    path: Path
    machine: str  # x64, AArch64
    needed: tuple[str, ...]
    exports: frozenset[str]
    undefined: frozenset[str]  # that must be found at load time; weak ones need not

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators whose two phases are exported: aclnn<Op>GetWorkspaceSize and aclnn<Op>."""
        names = (
            name.removeprefix("aclnn").removesuffix("GetWorkspaceSize")
            for name in self.exports
            if name.startswith("aclnn") and name.endswith("GetWorkspaceSize")
        )
        return tuple(sorted(name for name in names if f"aclnn{name}" in self.exports))


def read(path: Path) -> Library:
    try:
        with path.open("rb") as file:
            return _read(path, ELFFile(file))
    except (OSError, ELFError) as error:
        raise NotALibrary(str(error) or type(error).__name__) from error


def _read(path: Path, elf: Any) -> Library:
    dynamic, table = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynsym")
    if not isinstance(dynamic, DynamicSection) or table is None:
        raise NotALibrary("it has no dynamic section")
    exports, undefined = set(), set()
    for symbol in table.iter_symbols():
        if symbol["st_shndx"] != "SHN_UNDEF":
            exports.add(symbol.name)
        elif symbol.name and symbol["st_info"]["bind"] == "STB_GLOBAL":
            undefined.add(symbol.name)
    return Library(
        path=path,
        machine=elf.get_machine_arch(),
        needed=tuple(tag.needed for tag in dynamic.iter_tags("DT_NEEDED")),  # type: ignore[attr-defined]
        exports=frozenset(exports),
        undefined=frozenset(undefined),
    )


@cache
def _cached_folders() -> tuple[Path, ...]:
    """The folders that the loader's cache knows."""
    tool = next((t for t in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(t)), "ldconfig")
    answer = ask([tool, "-p"])
    lines = answer.output.splitlines() if answer.code == 0 else []
    found = {Path(line.rsplit("=> ", 1)[1]).parent for line in lines if "=> " in line}
    return (*sorted(found), Path("/lib64"), Path("/usr/lib64"), Path("/lib"), Path("/usr/lib"))


def _listed_folders() -> list[Path]:
    return [Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]


def stub_folders(toolkit: Path) -> tuple[Path, ...]:
    """What stands for a driver where none is: those of with_stubs in kernels/packaging/compatible.sh."""
    machine = platform.machine()
    roots = (toolkit / "runtime/lib64/stub", toolkit / f"{machine}-linux/devlib")
    folders = (folder for root in roots for folder in (root, root / "linux" / machine))
    return tuple(folder for folder in folders if folder.is_dir())


@dataclass(frozen=True, kw_only=True)
class Closure:
    missing: tuple[str, ...]  # libraries that are found nowhere
    unresolved: tuple[str, ...]  # symbols that no library of the closure exports; empty where a library is missing
    stubs: tuple[str, ...] = ()  # libraries that are found among the stubs alone


def closure(library: Library, folders: Sequence[Path], stubs: Sequence[Path] = ()) -> Closure:
    """Follows NEEDED as the loader would, with `folders` before its own, and `stubs` last where no driver is."""
    places = (*folders, *_listed_folders(), *_cached_folders())
    if any((place / DRIVER).exists() for place in places):
        stubs = ()
    found: dict[str, Library] = {}
    missing: list[str] = []
    stood_for: list[str] = []
    queue = list(library.needed)
    while queue:
        name = queue.pop()
        if name in found or name in missing:
            continue
        other = _first(places, name, library.machine)
        if other is None and (other := _first(stubs, name, library.machine)):
            stood_for.append(name)
        if other is None:
            missing.append(name)
        else:
            found[name] = other
            queue += other.needed
    offered = library.exports.union(*(other.exports for other in found.values()))
    unresolved = () if missing else tuple(sorted(library.undefined - offered))
    return Closure(missing=tuple(sorted(missing)), unresolved=unresolved, stubs=tuple(sorted(stood_for)))


def _first(places: Sequence[Path], name: str, machine: str) -> Library | None:
    return next((found for place in places if (found := _match(place / name, machine))), None)


@cache
def _match(path: Path, machine: str) -> Library | None:
    if not path.is_file():
        return None
    try:
        library = read(path)
    except NotALibrary:
        return None
    return library if library.machine == machine else None


def load_error(path: Path, folders: Sequence[Path], stubs: Sequence[Path] = ()) -> str:
    """Loads the library in a process of its own, every symbol at once; an empty text if that works."""
    listed = ":".join(map(str, (*folders, *_listed_folders(), *stubs)))
    program = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)"
    answer = ask([sys.executable, "-c", program, str(path)], env={"LD_LIBRARY_PATH": listed})
    if not answer.code:
        return ""
    lines = answer.errors.strip().splitlines()
    return lines[-1] if lines else f"the loading process ended with code {answer.code}"
