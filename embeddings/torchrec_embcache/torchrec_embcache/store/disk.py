"""DiskStore: rows in slab files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from hybrid_torchrec.table import RowBatch, TableConfig

from torchrec_embcache.errors import StoreCorrupt, StoreInputError, StoreReadOnly
from torchrec_embcache.store.base import RowLayout, columns
from torchrec_embcache.store.raw import INDEX_ROWS, RawStore, StoreStats

SCHEMA = "table.json"


class DiskStore:
    """Rows of one table in the files of a folder, which no other process may have open for writing.

    Args:
        folder: made if it is not there.
        config: of the table; a folder that was made for rows of another shape is refused.
        slab_bytes: size of a file, of a new store.
        io_threads: reads that are under way at the same time.
        index_rows: of which the index is in memory, at least.
        read_only: several processes may read.

    Raises StoreLocked, StoreCorrupt, StoreInputError, StoreReadOnly, StoreDiskFull and StoreIOError with the file and
    the remedy. 2**31 rows and old versions fit. Memory is 8.5 bytes an id up to index_rows ids, about 2 beyond, and
    at most 16 MiB of what was read or written lately.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config: TableConfig,
        *,
        slab_bytes: int = 256 << 20,
        io_threads: int = 8,
        index_rows: int = INDEX_ROWS,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._layout = RowLayout.of(config)
        _check_schema(self.folder, config, read_only)
        self._raw = RawStore(
            self.folder,
            self._layout.row_bytes,
            slab_bytes=slab_bytes,
            io_threads=io_threads,
            index_rows=index_rows,
            read_only=read_only,
        )
        self._read_only = read_only

    @staticmethod
    def repair(folder: str | os.PathLike[str], config: TableConfig) -> int:
        """Drops what is damaged, so that the store opens again; returns how many records. Close it everywhere first.

        A dropped record may be a row, then its id is new when it comes again; an older version of a row, that then is
        back; or an erasure.
        """
        _check_schema(Path(folder), config, read_only=False)
        raw = RawStore(Path(folder), RowLayout.of(config).row_bytes, slab_bytes=1, io_threads=1, repair=True)
        try:
            return raw.stats().dropped
        finally:
            raw.close()

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        ids = ids.contiguous()
        rows = self._layout.empty(ids.numel())
        rows.ids.copy_(ids)
        found = self._raw.read(ids, columns(rows))
        return (rows if bool(found.all()) else rows.select(found)), found

    def fetch(self, ids: torch.Tensor) -> list[RowBatch]:
        return [self.read(ids)[0]]

    def write(self, rows: RowBatch) -> None:
        self._raw.write(rows.ids.contiguous(), columns(rows))

    def erase(self, ids: torch.Tensor) -> int:
        return self._raw.erase(ids.contiguous())

    def __len__(self) -> int:
        return self._raw.stats().rows

    def scan(self, chunk: int) -> Iterator[RowBatch]:
        cursor = (0, 0)
        while True:
            rows = self._layout.empty(chunk)
            filled, cursor = self._raw.scan(cursor, rows.ids, columns(rows))
            if filled == 0:
                return
            yield rows.select(torch.arange(filled)) if filled < chunk else rows

    def flush(self) -> None:
        self._raw.flush()

    def stats(self) -> StoreStats:
        return self._raw.stats()

    def close(self) -> None:
        """Flushes, saves the index so that the next opening is fast, and closes the files, also if that fails."""
        try:
            if not self._read_only and self._raw.is_open:
                self._raw.flush(snapshot=True)
        finally:
            self._raw.close()


def _check_schema(folder: Path, config: TableConfig, read_only: bool) -> None:
    """The folder's rows must have the shape of the table's; a new folder takes it."""
    layout = RowLayout.of(config)
    wanted = {
        "dim": layout.dim,
        "dtype": str(layout.dtype).removeprefix("torch."),
        "state": layout.state,
        "optimizer": config.optimizer.kind,
    }
    file = folder / SCHEMA
    try:
        if file.is_file():
            found = json.loads(file.read_text(encoding="utf-8"))
        elif read_only:
            raise StoreInputError(f"{folder}: there is no store of rows; check the path")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(wanted) + "\n", encoding="utf-8")
            partial.replace(file)
            return
    except ValueError as error:
        if isinstance(error, StoreInputError):
            raise
        raise StoreCorrupt(f"{file}: damaged ({error}); it should read {json.dumps(wanted)}") from error
    except (PermissionError, OSError) as error:
        if isinstance(error, StoreInputError):
            raise
        raise StoreReadOnly(
            f"{folder}: {error.strerror}; make the folder writable, or open the store with read_only=True"
        ) from error
    if found != wanted:
        raise StoreInputError(
            f"{folder}: the store has rows of {json.dumps(found)}, table '{config.name}' has {json.dumps(wanted)}; "
            "give the table another folder, or the same shape and optimizer"
        )
