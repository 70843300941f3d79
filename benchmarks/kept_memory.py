"""malloc keeps what is freed, for all sides of a comparison.

glibc gives blocks of 32 MiB and more back to the system and takes them anew, page by page: who frees and allocates one
in every call is slower by its pages, whatever it does with them. The settings hold from a process's start on.
"""

from __future__ import annotations

import os
import resource
import sys

SETTINGS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def keep() -> None:
    """Starts the program again, by the same words, with the settings, unless it has them."""
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | SETTINGS)


def faults() -> int:
    """Pages that the process has been given so far; a huge one counts as one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
