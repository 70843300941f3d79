"""Threads that work beside training."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable

# Over that of the process. A thread then gets 70 parts of a core for every 1024 that training gets, about what it needs
# also where other processes want the core; with 19 it would get 15, and training would wait for it there.
NICENESS = 12


def background_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """A daemon that leaves a core to the threads of training that want it, and works while they wait.

    So a step waits less for those of other ranks: work that came at another time on each of them would hold all up.
    """

    def run() -> None:
        _give_way()
        target()

    return threading.Thread(target=run, name=name, daemon=True)


def _give_way() -> None:
    """Lowers the priority of the calling thread, where threads have one of their own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may refuse it; the thread has its work to do all the same
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
