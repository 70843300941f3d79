"""What a cached table was doing when its process was killed, and kills aimed at one of these phases."""

from __future__ import annotations

import mmap
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchrec_embcache import CachedTable
from torchrec_embcache.prefetch import Prefetcher
from torchrec_embcache.store.tiered import TieredStore

# save: rows of the device and of host memory go to disk, synced; write-back: evicted rows go below, by a thread of
# their own; prefetch: rows of a later batch come, by another thread.
METHODS: dict[str, tuple[Any, str]] = {
    "save": (CachedTable, "flush"),
    "evict": (CachedTable, "make_room"),
    "write-back": (TieredStore, "write"),
    "prefetch": (Prefetcher, "_fetch"),
}
PHASES = tuple(METHODS)


def marks(folder: Path) -> Path:
    """A byte for each phase, in memory that outlives the process: whether it was under way."""
    return folder.with_name(f"{folder.name}.phases")


def under_way(folder: Path) -> set[str]:
    return {phase for phase, mark in zip(PHASES, marks(folder).read_bytes()) if mark}


def watch(folder: Path, aim: str | None, calls: int) -> None:
    """In the child: marks the phases; the ``calls``-th call of a function in phase ``aim`` is where it ends."""
    path = marks(folder)
    path.write_bytes(bytes(len(PHASES)))
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), len(PHASES))
    left = calls

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal left
        if event in ("call", "c_call"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def marked(at: int, phase: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(of: Any, *arguments: Any) -> Any:
            if phase == "evict" and not _evicts(of, *arguments):
                return method(of, *arguments)
            before = sys.getprofile()
            shared[at] = 1
            if phase == aim:
                sys.setprofile(profile)
            try:
                return method(of, *arguments)
            finally:
                sys.setprofile(before)  # an eviction may be for a prefetch
                shared[at] = 0

        return call

    for at, (phase, (owner, name)) in enumerate(METHODS.items()):
        setattr(owner, name, marked(at, phase, getattr(owner, name)))


def _evicts(table: CachedTable, new: int, used: object) -> bool:
    return bool(table.backend.ids.missing_room(new) > 0)
