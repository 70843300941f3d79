"""ShortenedNotice: says once that a look-ahead was shortened."""

from __future__ import annotations

import warnings


class ShortenedNotice:
    """Noted on the prefetch thread, given as a warning on the one that trains."""

    def __init__(self, table: str, rows: int) -> None:
        self._table = table
        self._rows = rows
        self._waiting: str | None = None
        self._noted = False

    def note(self, *, ahead: int, ids: int, pinned: int) -> None:
        """ahead: batches before it; ids: distinct ones of the batch that does not fit; pinned: ids of those before."""
        if self._noted:
            return
        self._noted = True
        self._waiting = (
            f"table '{self._table}': the look-ahead is shortened to {ahead} batches: a further batch of {ids} distinct "
            f"ids does not fit beside the {pinned} ids of the batches before it in cache_rows={self._rows}; raise "
            "cache_rows, or look ahead less"
        )

    def give(self, stacklevel: int) -> None:
        notice, self._waiting = self._waiting, None
        if notice is not None:
            warnings.warn(notice, RuntimeWarning, stacklevel=stacklevel + 1)
