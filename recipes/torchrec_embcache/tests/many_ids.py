"""Streams distinct ids through one cached table on disk: ``python many_ids.py FOLDER IDS [BATCH]``, prints figures.

Every row takes one step with a gradient of ones, so what it must be follows from its id. Needs 64 bytes of disk an id,
half as much again while old versions wait, and about 6.5 bytes of memory an id.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path

import torch
from hybrid_torchrec import OptimizerSpec, TableConfig
from torchrec_embcache import CacheConfig, CachedTable

LR = 0.5
CONFIG = TableConfig(name="item", dim=8, optimizer=OptimizerSpec(kind="sgd", lr=LR))
ODD = -7046029254386353131  # a bijection of the integers modulo 2**64


def ids_of(first: int, end: int) -> torch.Tensor:
    return torch.arange(first, end) * ODD


def status(field: str) -> int:
    """Bytes."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def stream(folder: Path, count: int, batch: int) -> dict[str, float]:
    cache = CacheConfig(
        cache_rows=4 * batch, host_rows=2 * batch, folder=folder, write_back_rows=4 * batch, io_threads=4
    )
    table = CachedTable(CONFIG, cache)
    start = time.perf_counter()
    for first in range(0, count, batch):
        if first == 0:
            table.prefetch(ids_of(0, batch))
        if first + batch < count:
            table.prefetch(ids_of(first + batch, min(first + 2 * batch, count)))
        ids = ids_of(first, min(first + batch, count))
        slots = table.assign(ids, train=True)
        table.update(slots, torch.ones(len(ids), CONFIG.dim))
        if first % (batch * 200) == 0:
            print(f"{first:,} ids, {time.perf_counter() - start:.0f} s, {status('VmRSS') >> 20} MiB", flush=True)
    table.flush()
    seconds = time.perf_counter() - start
    assert len(table) == count
    draw = random.Random(0)
    for _ in range(20):
        first = draw.randrange(0, max(1, count - 1000))
        ids = ids_of(first, min(first + 1000, count))
        rows, found = table.read(ids)
        expected = CONFIG.initializer.rows(ids, CONFIG.dim, CONFIG.seed) - LR
        assert bool(found.all()) and torch.equal(rows.weights, expected)
        assert not bool(table.read(ids + 1)[1].any())
    stats = table._written_back._store._disk.stats()  # type: ignore[attr-defined]
    table.close()
    return {
        "ids": count, "seconds": seconds, "ids_per_s": count / seconds, "peak_rss_mib": status("VmHWM") / 2**20,
        "index_bytes_per_id": stats.index_bytes / count, "disk_bytes_per_id": stats.disk_bytes / count,
        "evicted_rows": table.metrics.counters().evicted_rows,
    }  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(json.dumps(stream(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 50_000)))
