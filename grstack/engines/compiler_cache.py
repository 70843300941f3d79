"""ccache in builds of components: what a compiler was given before is not compiled again.

It comes with the toolchain's environment, linked statically, so that it runs in any container. It stands first on PATH
under the compilers' names, and looks for each behind itself. No step's key knows of it: ccache goes by the compiler's
content, its flags and all text, and gives back the object file of that time.
CCACHE_DISABLE=1 has the compilers run as ever; CCACHE_MAXSIZE is heard too.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COMPILERS = ("cc", "c++", "gcc", "g++")
SETTINGS = {
    # Builds have a folder of their own each below the temporary one, whose name is not to count.
    "CCACHE_NOHASHDIR": "1",
    "CCACHE_COMPILERCHECK": "content",
    # What precompiled headers want, and what differs in each staged copy of the sources.
    "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
    "CCACHE_MAXSIZE": "2G",
}


@dataclass(frozen=True, kw_only=True)
class CompilerCache:
    """programs: the folder for PATH. store: where object files are kept."""

    programs: Path
    store: Path

    def variables(self, store: str, temporary: str) -> dict[str, str]:
        """For a build to which `store` and the temporary folder are known by these names."""
        given = {name: os.environ[name] for name in SETTINGS if name in os.environ}
        return {**SETTINGS, **given, "CCACHE_DIR": store, "CCACHE_BASEDIR": temporary}


def prepare(cache: Path, engine: str, environment: Mapping[str, str] = os.environ) -> CompilerCache | None:
    """The cache of an engine's builds, below the user's folder `cache`; None without ccache, or where it is not wanted.

    Engines have one each: files from containers may belong to root.
    """
    ccache = Path(sys.executable).parent / "ccache"
    if environment.get("CCACHE_DISABLE") or not ccache.is_file():
        return None
    place = cache / "ccache" / engine
    programs, store = place / "bin", place / "store"
    store.mkdir(parents=True, exist_ok=True)
    programs.mkdir(exist_ok=True)
    own = programs / "ccache"
    if not own.is_file() or own.stat().st_size != ccache.stat().st_size:
        arriving = own.with_name(f".ccache-{os.getpid()}")  # another checkout's build may be running it
        shutil.copy2(ccache, arriving)
        arriving.replace(own)
    for name in COMPILERS:
        if not (programs / name).is_symlink():
            (programs / name).symlink_to("ccache")
    return CompilerCache(programs=programs, store=store)
