"""Rows whose values follow from their id and a version, so that a reader can tell whose they are."""

from __future__ import annotations

import time

import torch
from hybrid_torchrec.table import RowBatch, TableConfig
from torchrec_embcache import CachedTable
from torchrec_embcache.store.base import RowLayout


def rows_of(config: TableConfig, ids: list[int], version: int) -> RowBatch:
    count = len(ids)
    tensor = torch.tensor(ids, dtype=torch.int64)
    mixed = (tensor * 2654435761 + version * 40503) % 1000003
    columns = torch.arange(config.dim)
    state = {
        name: (mixed[:, None] + torch.arange(max(width, 1))).float().view(count, width)
        if width
        else (mixed + version).float()
        for name, width in config.optimizer.state_widths(config.dim).items()
    }
    return RowBatch(
        ids=tensor,
        weights=(mixed[:, None] + columns).to(config.dtype),
        state=state,
        shows=mixed.float(),
        clicks=(mixed * 2).float(),
        last_step=torch.full((count,), version),
    )


def assert_rows(config: TableConfig, rows: RowBatch, versions: dict[int, int]) -> None:
    """Each row has all the values of its id and of its version in ``versions``."""
    for version in {versions[one] for one in rows.ids.tolist()}:
        mine = rows.select(torch.tensor([versions[one] == version for one in rows.ids.tolist()]))
        expected = rows_of(config, mine.ids.tolist(), version).named_tensors()
        for name, tensor in mine.named_tensors().items():
            assert torch.equal(tensor, expected[name]), (name, version)


def let_writes_end(table: CachedTable, seconds: float = 60.0) -> None:
    """Rows that wait are read from the queue: on a busy machine a short training would never read the disk."""
    end = time.monotonic() + seconds
    while table.waiting_rows:
        assert time.monotonic() < end, f"{table.waiting_rows} rows still wait after {seconds:g} s"
        time.sleep(0.001)


def assert_used_disk(table: CachedTable, rows: int) -> None:
    """Training wrote at least so many rows to disk, and read as many; call it before anything else reads the tiers.

    Training must have let its writes end on its way.
    """
    let_writes_end(table)
    stats, least = table.disk_stats(), rows * RowLayout.of(table.config).row_bytes
    assert stats is not None and stats.rows > 0
    assert stats.bytes_written > least and stats.bytes_read > least
