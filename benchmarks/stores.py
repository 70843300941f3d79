"""Stores for the rows of embedding tables on disk: ours (torchrec_embcache's slab files) beside embedded databases.

    python benchmarks/stores.py [--rows N] [--stores slabs,rocksdict,lmdb,sqlite] [--folder DIR] [--output FILE]

Each store is filled with rows of 512 bytes under random 64-bit ids, batch by batch, then batches of random rows are
read, rewritten, and looked for in vain; each store in a process of its own. Run it under a memory limit that is smaller
than the data (docker --memory=512m), or the page cache holds everything. All stores are set so that a killed process
loses no finished batch, and none waits for the disk on each batch; every one is flushed at the end of a phase. Rows/s
of wall time; `cpu` is processor seconds (user and system, of all threads) per million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402

ROW_BYTES = 512
BATCH = 16384
RESULTS = Path(__file__).resolve().parent / "results"


class Slabs:
    def __init__(self, folder: Path) -> None:
        from torchrec_embcache.store.raw import RawStore

        self.version = "this repository"
        self.raw = RawStore(folder / "slabs", ROW_BYTES, slab_bytes=64 << 20, io_threads=8)

    def write(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        self.raw.write(ids, [rows])

    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.zeros(ids.numel(), ROW_BYTES, dtype=torch.uint8)
        return rows, self.raw.read(ids, [rows])

    def flush(self) -> None:
        self.raw.flush()


def pack(ids: torch.Tensor, rows: torch.Tensor) -> tuple[list[bytes], list[bytes]]:
    keys, values = ids.numpy().tobytes(), rows.numpy().tobytes()
    count = ids.numel()
    return [keys[8 * k : 8 * k + 8] for k in range(count)], [
        values[ROW_BYTES * k : ROW_BYTES * (k + 1)] for k in range(count)
    ]


def unpack(values: list[bytes | None]) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.tensor([value is not None for value in values])
    joined = bytearray().join(value if value is not None else bytes(ROW_BYTES) for value in values)
    return torch.frombuffer(joined, dtype=torch.uint8).view(-1, ROW_BYTES), found


class Rocks:
    def __init__(self, folder: Path) -> None:
        import rocksdict

        self.version = f"rocksdict {version('rocksdict')}"
        self.rocksdict = rocksdict
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(2)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        table = rocksdict.BlockBasedOptions()
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.db = rocksdict.Rdict(str(folder / "rocks"), options)

    def write(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        for key, value in zip(*pack(ids, rows)):
            batch.put(key, value)
        self.db.write(batch)

    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        keys = ids.numpy().tobytes()
        return unpack(self.db[[keys[8 * k : 8 * k + 8] for k in range(ids.numel())]])

    def flush(self) -> None:
        self.db.flush()


class Lmdb:
    def __init__(self, folder: Path) -> None:
        import lmdb

        self.version = f"lmdb {version('lmdb')}"
        self.env = lmdb.open(str(folder / "lmdb"), map_size=1 << 36, sync=False, readahead=False, writemap=False)

    def write(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        with self.env.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(sorted(zip(*pack(ids, rows))))

    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        keys = ids.numpy().tobytes()
        with self.env.begin() as txn:
            return unpack([txn.get(keys[8 * k : 8 * k + 8]) for k in range(ids.numel())])

    def flush(self) -> None:
        self.env.sync(True)


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.version = f"sqlite {sqlite3.sqlite_version}"
        self.db = sqlite3.connect(folder / "rows.sqlite")
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute("PRAGMA cache_size=-65536")
        self.db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, row BLOB)")

    def write(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        _, values = pack(ids, rows)
        with self.db:
            self.db.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", zip(ids.tolist(), values))

    def read(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        get = "SELECT row FROM rows WHERE id = ?"
        found = [self.db.execute(get, (one,)).fetchone() for one in ids.tolist()]
        return unpack([row[0] if row else None for row in found])

    def flush(self) -> None:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


STORES: dict[str, Callable[[Path], Any]] = {"slabs": Slabs, "rocksdict": Rocks, "lmdb": Lmdb, "sqlite": Sqlite}


def ids_of(numbers: torch.Tensor) -> torch.Tensor:
    """Ids without order: an odd multiple of the number, modulo 2**64."""
    return numbers * -7046029254386353131


def rows_of(ids: torch.Tensor, generation: int) -> torch.Tensor:
    seeds = torch.arange(1, ROW_BYTES // 8 + 1) * 0x9E3779B1 + generation
    return (ids[:, None] * seeds[None, :]).view(torch.uint8)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(name: str, folder: Path, rows: int, batches: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    store = STORES[name](folder)
    result: dict[str, Any] = {"store": name, "version": store.version}

    def phase(label: str, count: int, step: Callable[[int], int]) -> None:
        start, used = time.perf_counter(), processor_seconds()
        done, times = 0, []
        for k in range(count):
            begin = time.perf_counter()
            done += step(k)
            times.append(time.perf_counter() - begin)
        store.flush()
        wall = time.perf_counter() - start
        result[label] = {
            "rows_per_s": done / wall,
            "cpu_s_per_million": (processor_seconds() - used) / done * 1e6,
            "batch_ms_median": statistics.median(times) * 1e3,
            "batch_ms_worst": max(times) * 1e3,
        }

    def fill(k: int) -> int:
        ids = ids_of(torch.arange(k * BATCH, min((k + 1) * BATCH, rows)))
        store.write(ids, rows_of(ids, 0))
        return ids.numel()

    def read(_: int) -> int:
        ids = ids_of(torch.randint(0, rows, (BATCH,)))
        got, found = store.read(ids)
        assert bool(found.all()) and torch.equal(got, rows_of(ids, 0))
        return BATCH

    def rewrite(_: int) -> int:
        ids = ids_of(torch.randint(0, rows, (BATCH,)).unique())
        store.write(ids, rows_of(ids, 1))
        return ids.numel()

    def absent(_: int) -> int:
        _, found = store.read(ids_of(torch.randint(rows, 1 << 40, (BATCH,))))
        assert not bool(found.any())
        return BATCH

    phase("fill", (rows + BATCH - 1) // BATCH, fill)
    phase("read", batches, read)
    phase("rewrite", batches, rewrite)
    phase("absent", batches, absent)
    size = sum(f.stat().st_blocks * 512 for f in folder.rglob("*") if f.is_file())
    result["disk_bytes_per_row"] = size / rows
    result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure")
    parser.add_argument("--measure", choices=STORES, help="one store in this process, in --folder")
    parser.add_argument("--output", type=Path, default=RESULTS / "embcache-stores")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.folder, arguments.rows, arguments.batches)))
        return
    results = []
    for name in arguments.stores.split(","):
        folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        argv = [sys.executable, __file__, "--measure", name, "--folder", str(folder)]
        argv += ["--rows", str(arguments.rows), "--batches", str(arguments.batches)]
        try:
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            result = json.loads(done.stdout.strip().splitlines()[-1])
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name}: exit code {error.returncode} (-9: out of memory)\n{error.stderr}")
        finally:
            shutil.rmtree(folder)
        results.append(result)
        print(json.dumps(result), flush=True)
    write(results, arguments)


def memory_limit() -> str:
    """Of the container: control groups version 2, or 1."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = Path(file).read_text().strip() if Path(file).is_file() else ""
        if text.isdigit() and int(text) < 1 << 60:
            return f"memory limit {int(text) >> 20} MiB"
    return "no memory limit"


def write(results: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory_limit()}"
    facts = {"machine": machine, "rows": arguments.rows, "row_bytes": ROW_BYTES, "batch": BATCH}
    arguments.output.with_suffix(".json").write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")
    lines = [
        "# Stores for rows on disk",
        "",
        f"{machine}; {arguments.rows:,} rows of {ROW_BYTES} bytes, batches of {BATCH}; `python benchmarks/stores.py`.",
        "Rows/s (processor seconds per million rows; slowest batch in ms).",
        "",
        "| store | fill | read | rewrite | absent | bytes on disk per row | peak RSS MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        cells = [
            f"{one[p]['rows_per_s']:,.0f} ({one[p]['cpu_s_per_million']:.1f}; {one[p]['batch_ms_worst']:.0f})"
            for p in ("fill", "read", "rewrite", "absent")
        ]
        lines.append(
            f"| {one['version']} | {' | '.join(cells)} | {one['disk_bytes_per_row']:.0f} | {one['peak_rss_mb']:.0f} |"
        )
    arguments.output.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
