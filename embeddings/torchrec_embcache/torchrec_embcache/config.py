"""CacheConfig: the tiers of a table."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from hybrid_torchrec.table import TableConfig

from torchrec_embcache.store.raw import INDEX_ROWS


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """Tiers of one table.

    cache_rows: rows in device memory. host_rows: rows in host memory, None: all that are not on the device. folder: of
    the rows on disk, of this table and process alone; None: no disk, and all rows must fit in memory.
    evict_share: of cache_rows, evicted at once at least, since choosing them looks at all rows.
    write_back_rows: rows that may wait for the next tier; then evictions wait. slab_bytes, io_threads, index_rows: see
    DiskStore.
    """

    cache_rows: int
    host_rows: int | None = None
    folder: str | Path | None = None
    evict_share: float = 1 / 8
    write_back_rows: int = 1 << 20
    slab_bytes: int = 256 << 20
    io_threads: int = 8
    index_rows: int = INDEX_ROWS

    def check(self, table: TableConfig) -> None:
        where = f"table '{table.name}'"
        for name in ("cache_rows", "write_back_rows", "slab_bytes", "io_threads", "index_rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{where}: {name} must be an integer of at least 1, got {value!r}")
        if self.host_rows is not None and (not isinstance(self.host_rows, int) or self.host_rows < 0):
            raise ValueError(
                f"{where}: host_rows must be None or an integer that is not negative, got {self.host_rows!r}"
            )
        if self.folder is not None and not isinstance(self.folder, str | PathLike):
            raise ValueError(f"{where}: folder must be a path or None, got {self.folder!r}")
        if self.host_rows is not None and self.folder is None:
            raise ValueError(f"{where}: host_rows={self.host_rows} needs a folder for the other rows")
        if not 0.0 <= self.evict_share <= 1.0:
            raise ValueError(f"{where}: evict_share must be in [0, 1], got {self.evict_share}")
        if table.max_rows is not None or table.eviction is not None:
            raise ValueError(
                f"{where}: max_rows and eviction forget rows, but a cached table keeps all of them; leave them None "
                "and set cache_rows, or use hybrid_torchrec's collections"
            )
