"""Streams distinct ids through one cached table on disk, with a limit of memory: prints its figures.

    python many_ids.py FOLDER IDS [--limit-mib 1024] [--batch 100000] [--log FILE]

Every row takes one step with a gradient of ones, so what it must be follows from its id. Needs about 90 bytes of disk
an id. A line of FILE says how far the table is flushed; killed, the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_limit import MemoryLimit

LR = 0.5
DIM = 8
ODD = -7046029254386353131  # a bijection of the integers modulo 2**64
FLUSH_EVERY = 5_000_000  # ids


def status(field: str) -> int:
    """Bytes."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


class Log:
    """Lines of JSON about one table: 'until' ids are being written, 'flushed' of them are safe."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self.lines = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, **values: Any) -> None:
        self.lines.append(values)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(values) + "\n")

    def last(self, name: str) -> int:
        return max((line[name] for line in self.lines if name in line), default=0)

    def total(self, name: str) -> float:
        return sum(line.get(name, 0) for line in self.lines)

    def most(self, name: str) -> float:
        return max(line.get(name, 0) for line in self.lines)


def batches(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    for begin in range(first, end, size):
        yield begin, min(begin + size, end)


def stream(
    folder: Path, count: int, batch: int, log: Path | None = None, limit: MemoryLimit | None = None
) -> dict[str, float]:
    import torch
    from hybrid_torchrec import OptimizerSpec, TableConfig
    from torchrec_embcache import CacheConfig, CachedTable

    config = TableConfig(name="item", dim=DIM, optimizer=OptimizerSpec(kind="rowwise_adagrad", lr=LR))
    cache = CacheConfig(
        cache_rows=4 * batch, host_rows=2 * batch, folder=folder, write_back_rows=4 * batch, io_threads=4
    )

    def ids_of(first: int, end: int) -> torch.Tensor:
        return torch.arange(first, end) * ODD

    lines = Log(log)
    table = CachedTable(config, cache)
    done, begun = lines.last("flushed"), lines.last("until")
    for first, end in batches(done, begun, batch):  # of a run that was killed; they would take a second step
        table.erase(ids_of(first, end))
    assert len(table) == done
    ones = torch.ones(batch, DIM)
    for begin, stop in batches(done, count, max(batch, FLUSH_EVERY // batch * batch)):
        lines.add(until=stop)
        start, used, evicted = time.perf_counter(), time.process_time(), table.metrics.counters().evicted_rows
        ahead = batches(begin, stop, batch)
        table.prefetch(ids_of(*next(ahead)))
        for first, end in batches(begin, stop, batch):
            for later in ahead:
                table.prefetch(ids_of(*later))
                break
            ids = ids_of(first, end)
            table.update(table.assign(ids, train=True), ones[: len(ids)])
        table.flush()
        lines.add(
            flushed=stop,
            seconds=time.perf_counter() - start,
            cpu_seconds=time.process_time() - used,
            rss_mib=status("VmRSS") >> 20,
            peak_rss_mib=status("VmHWM") >> 20,
            anonymous_mib=status("RssAnon") >> 20,
            limit_peak_mib=limit.peak >> 20 if limit else 0,
            evicted=table.metrics.counters().evicted_rows - evicted,
        )
        print(json.dumps(lines.lines[-1]), flush=True)
    start = time.perf_counter()
    assert len(table) == count
    draw = random.Random(0)
    for _ in range(100):
        first = draw.randrange(0, max(1, count - 1000))
        ids = ids_of(first, min(first + 1000, count))
        rows, found = table.read(ids)
        expected = config.initializer.rows(ids, DIM, config.seed).double() - LR  # the mean square of ones is 1
        assert bool(found.all()) and bool(((rows.weights - expected).abs() < 1e-6).all())
        assert bool((rows.state["momentum1"] == 1).all())
        assert not bool(table.read(ids + 1)[1].any())
    reading = time.perf_counter() - start
    stats = table._tiers.store._store._disk.stats()  # type: ignore[attr-defined]
    table.close()
    start = time.perf_counter()
    table = CachedTable(config, cache)
    assert len(table) == count
    opening = time.perf_counter() - start
    table.close()
    seconds, used = lines.total("seconds"), lines.total("cpu_seconds")
    return {
        "ids": count,
        "seconds": seconds,
        "ids_per_s": count / seconds,
        "cpu_seconds": used,
        "ids_per_cpu_s": count / used,
        "peak_rss_mib": lines.most("peak_rss_mib"),
        "anonymous_mib": lines.most("anonymous_mib"),
        "limit_mib": limit.limit >> 20 if limit else 0,
        "limit_peak_mib": lines.most("limit_peak_mib"),
        "index_bytes_per_id": stats.index_bytes / count,
        "disk_bytes": stats.disk_bytes,
        "disk_bytes_per_id": stats.disk_bytes / count,
        "evicted_rows": lines.total("evicted"),
        "read_200000_seconds": reading,
        "opening_seconds": opening,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ids", type=int)
    parser.add_argument("--limit-mib", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    limit = MemoryLimit(options.limit_mib << 20)
    import torch

    torch.set_num_threads(2)
    print(json.dumps(stream(options.folder, options.ids, options.batch, options.log, limit)))


if __name__ == "__main__":
    main()
