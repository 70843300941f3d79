"""Errors of the package.

EmbCacheError
├── CacheTooSmall        a batch has more distinct ids than the cache has rows
└── StoreError           a row store cannot do what was asked
    ├── StoreInputError      wrong arguments, or a folder of another table
    ├── StoreIOError         the system refused a call
    ├── StoreDiskFull
    ├── StoreReadOnly
    ├── StoreCorrupt         a checksum or a file's structure is wrong
    ├── StoreLocked          another process has the store open
    └── StoreFull            no more row numbers
"""

from __future__ import annotations


class EmbCacheError(RuntimeError):
    """Base of this package's errors."""


class CacheTooSmall(EmbCacheError):
    """A batch does not fit in the device table."""

    @classmethod
    def of_batch(cls, table: str, rows: int, ids: int, pinned: int, taken: int) -> CacheTooSmall:
        """pinned: rows that `taken` batches before it keep; 0 where it does not fit by itself."""
        if pinned == 0:
            return cls(
                f"table '{table}': a batch has {ids} distinct ids, but cache_rows is {rows}; "
                f"set cache_rows to at least {ids}, or use smaller batches"
            )
        return cls(
            f"table '{table}': a batch has {ids} distinct ids, {taken} batches before it that have had no update keep "
            f"{pinned} rows, and cache_rows is {rows}; raise cache_rows, accumulate gradients over fewer batches, or "
            "call eval() for batches without a backward pass"
        )


class StoreError(EmbCacheError):
    """Base of a row store's errors; the message says which file, what happened and what to do."""


class StoreInputError(StoreError, ValueError):
    pass


class StoreIOError(StoreError, OSError):
    pass


class StoreDiskFull(StoreError, OSError):
    pass


class StoreReadOnly(StoreError, OSError):
    pass


class StoreCorrupt(StoreError):
    pass


class StoreLocked(StoreError):
    pass


class StoreFull(StoreError):
    pass


FAULTS: dict[int, type[StoreError]] = {
    1: StoreInputError,
    2: StoreIOError,
    3: StoreDiskFull,
    4: StoreReadOnly,
    5: StoreCorrupt,
    6: StoreLocked,
    7: StoreFull,
}
