"""Both sides write their results into memory that is there.

glibc hands large blocks back to the system and takes them anew, page by page: a peer's result of 50 MB costs ten times
its copy then, and ours, which the plugin keeps, nothing. With these settings malloc keeps what is freed. They hold from
a process's start on.
"""

import os
import resource
import sys

TUNABLES = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736"


def keep() -> None:
    """Starts the program again with these settings, unless it has them."""
    if os.environ.get("GLIBC_TUNABLES") != TUNABLES:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": TUNABLES})


def faults() -> int:
    """Pages that the process has been given so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
