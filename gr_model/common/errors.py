"""Errors that a user can mend: they are told in a line or two, without a stack, and end a command with exit code 1."""

from __future__ import annotations

import errno
import os


class GrModelError(Exception):
    """Base of this package's: the message says what, where, and what to do next."""


class SaidElsewhere(GrModelError):
    """Another process has told the error already."""


# (module, class) of the packages' own; by name, because what imports them imports torch.
PACKAGES = {
    ("torchrec_embcache.errors", "EmbCacheError"),
    ("hybrid_torchrec.errors", "HashTableError"),
    ("hybrid_torchrec.checkpoint.errors", "CheckpointError"),
    ("torch", "OutOfMemoryError"),
}
NEXT = {
    "CacheTooSmall": "the command with embedding.cache_rows=ROWS (over all processes), or a smaller train.batch",
    "TableFull": "the command with embedding.max_rows=ROWS or embedding.eviction=lru",
    "OutOfMemoryError": "the command with a smaller train.batch or model.max_items, or model.recompute=true",
}
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
FULL = (errno.ENOSPC, errno.EDQUOT)


def told(error: BaseException) -> str | None:
    """What is printed of an error that a user can mend; None of any other, whose stack is needed."""
    if isinstance(error, GrModelError):
        return str(error)
    kinds = [(kind.__module__, kind.__name__) for kind in type(error).__mro__]
    if PACKAGES.intersection(kinds):
        advice = next((NEXT[name] for _, name in kinds if name in NEXT), None)
        return f"{error}\n  next: {advice}" if advice else str(error)
    if isinstance(error, OSError) and error.errno in (*REFUSED, *FULL):
        return of_system(error)
    return None


def of_system(error: OSError) -> str:
    """What the operating system refused, and where."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in FULL:
        return f"{where}{error.strerror}\n  next: free space, then --resume the run, or take another --out"
    if error.errno in REFUSED:
        return f"{where}{error.strerror}\n  next: take another folder, or open this one to user {os.geteuid()}"
    return f"{where}{error.strerror or error}"
