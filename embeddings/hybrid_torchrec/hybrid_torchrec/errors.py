"""Errors of this package."""


class HashTableError(Exception):
    """Base of all."""


class TableFull(HashTableError):
    """New ids need rows, and the table may neither grow nor evict."""

    def __init__(self, *, table: str, size: int, limit: int, wanted: int, reason: str, remedy: str) -> None:
        super().__init__(
            f"table '{table}' is full: {size} rows of at most {limit}, {wanted} more wanted, and {reason}; {remedy}"
        )
        self.table = table
        self.size = size
        self.limit = limit
        self.wanted = wanted


class VersionTooOld(HashTableError):
    """Changes since that version are no longer known in full; take a full dump."""
