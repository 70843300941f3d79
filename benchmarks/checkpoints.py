"""Saving, loading and streaming of hash tables: stall of training, time per save, latency from training to serving.

    python -m benchmarks.checkpoints [--rows 1000000] [--dim 64] [--out benchmarks/results]

The stall is the processor time of the training thread; its peer is the copy of the whole table that a blocking stage
(torch.distributed.checkpoint's own) makes, in the same run. Save and load have torch.save (to another file, which then
takes the place of the last one) and torch.load of the same tensors as peers: these have no checksums, and give tensors,
not a table of ids. Latency is wall time between two processes: it contains what else runs on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from hybrid_torchrec.checkpoint import Checkpointer, TableShard
from hybrid_torchrec.checkpoint.snapshot import Snapshot
from hybrid_torchrec.optimizers import OptimizerSpec
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.table import HashTable, RowBatch, TableConfig

BATCH = 8192


def filled(rows: int, dim: int) -> HashTable:
    table = HashTable(
        TableConfig(name="user", dim=dim, optimizer=OptimizerSpec(kind="rowwise_adagrad"), initial_capacity=rows)
    )
    for first in range(0, rows, 1 << 18):
        table.assign(torch.arange(first, min(first + (1 << 18), rows)) * 0x9E3779B97F4A7, train=True)
    return table


def train(table: HashTable, rows: int, step: int) -> None:
    """A power law over the rows, and a few ids that are new."""
    random = torch.Generator().manual_seed(step)
    ranks = (rows ** torch.rand(BATCH, generator=random)).long().clamp_(max=rows - 1)
    ranks[:16] = rows + 16 * step + torch.arange(16)
    slots = table.assign(ranks * 0x9E3779B97F4A7, train=True)
    table.update(slots, torch.full((BATCH, table.config.dim), 1e-3))


def median(call: Callable[[int], object], times: int, clock: Callable[[], float] = time.thread_time) -> float:
    seconds = []
    for number in range(times):
        begin = clock()
        call(number)
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def measure_stall(table: HashTable, rows: int, folder: Path) -> dict[str, float]:
    def snapshot(_: int) -> None:
        Snapshot(TableShard(table)).release()

    def whole_copy(_: int) -> None:
        table.read(table.ids())

    stall, copy = median(snapshot, 7), median(whole_copy, 3)
    alone = median(lambda step: train(table, rows, step), 20)
    checkpointer = Checkpointer(folder / "stall", {"user": table})
    pending = checkpointer.save_async(1)
    during = []
    step = 1000
    while not pending.done():
        begin = time.thread_time()
        train(table, rows, step)
        during.append(time.thread_time() - begin)
        step += 1
    pending.wait()
    return {
        "stall_ms": 1e3 * stall,
        "copy_of_all_rows_ms": 1e3 * copy,
        "copy_over_stall": copy / stall,
        "step_alone_ms": 1e3 * alone,
        "step_during_save_ms": 1e3 * statistics.median(during),
        "steps_during_save": len(during),
        "first_step_during_save_ms": 1e3 * during[0],
    }


def atomic_torch_save(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """What keeps the earlier save until this one is whole, as ours does: another file, synced, in its place."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(tensors, file)
        os.fsync(file.fileno())
    part.replace(path)


def in_turn(rounds: int, ours: Callable[[int], None], peer: Callable[[int], None]) -> dict[str, float]:
    """Medians of both, in seconds of the processor and of the wall, and of the rounds' ratios; the first is left out.

    In turn, for the system hands out pages that somebody has just given back much faster than others.
    """
    found: list[tuple[float, float, float, float]] = []
    for number in range(1 + rounds):
        times: list[float] = []
        for call in (ours, peer):
            begin, wall = time.process_time(), time.perf_counter()
            call(number)
            times += [time.process_time() - begin, time.perf_counter() - wall]
        found.append((times[0], times[1], times[2], times[3]))
    cpu, wall, peer_cpu, peer_wall = (statistics.median(column) for column in zip(*found[1:]))
    return {
        "cpu_s": cpu,
        "torch_cpu_s": peer_cpu,
        "cpu_over_torch": statistics.median(r[0] / r[2] for r in found[1:]),
        "wall_s": wall,
        "torch_wall_s": peer_wall,
        "wall_over_torch": statistics.median(r[1] / r[3] for r in found[1:]),
    }


def measure_save(table: HashTable, rows: int, folder: Path) -> dict[str, float]:
    checkpointer = Checkpointer(folder / "save", {"user": table}, keep=1)
    tensors = dict(table.read(table.ids())[0].named_tensors())
    path = folder / "peer.pt"
    save = in_turn(5, lambda number: checkpointer.save(number) and None, lambda _: atomic_torch_save(tensors, path))
    config = replace(table.config, initial_capacity=1024)

    def load(_: int) -> None:
        Checkpointer(folder / "save", {"user": HashTable(config)}).load()

    loaded = in_turn(5, load, lambda _: torch.load(path, weights_only=True) and None)
    rows_of = RowBatch.from_named_tensors(tensors)
    fill = median(lambda _: HashTable(config).write(rows_of), 3)
    train(table, rows, 5000)
    step = median(lambda number: train(table, rows, 5500 + number), 5)
    delta = median(lambda number: (train(table, rows, 6000 + number), checkpointer.save_delta(10 + number)), 3)
    size = sum(tensor.nbytes for tensor in tensors.values())
    return {
        "bytes": size,
        **{f"save_{name}": value for name, value in save.items()},
        **{f"load_{name}": value for name, value in loaded.items()},
        "rows_into_an_empty_table_cpu_s": fill,
        "delta_cpu_s": delta - step,
    }


def follow(stream: str) -> None:
    """The server of measure_latency: prints when it serves each record, by the row that counts."""
    with Consumer(stream, name="bench", interval=0.005) as consumer:
        consumer.wait_ready()
        print("ready", flush=True)
        last = -1.0
        while True:
            value = consumer.lookup("clock", torch.tensor([7]))[0][0, 0].item()
            if value != last:
                print(value, time.time(), flush=True)
                last = value
            time.sleep(0.001)


def measure_latency(table: HashTable, rows: int, folder: Path) -> dict[str, float]:
    """From the call of publish() to the row's new value in another process."""
    clock = HashTable(TableConfig(name="clock", dim=1, optimizer=OptimizerSpec(kind="sgd", lr=1.0)))
    slots = clock.assign(torch.tensor([7]), train=True)
    clock.update(slots, clock.lookup(slots))
    publisher = Publisher(folder / "stream", {"user": TableShard(table), "clock": TableShard(clock)})
    argv = [sys.executable, "-m", "benchmarks.checkpoints", "--follow", str(folder / "stream")]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n" and server.stdout.readline().startswith("0.0 ")
        latencies, counts = [], []
        for number in range(1, 31):
            for step in range(5):
                train(table, rows, 10_000 + 5 * number + step)
            clock.update(slots, torch.tensor([[-1.0]]))
            begin = time.time()
            counts.append(publisher.publish(number).rows)
            value, at = map(float, server.stdout.readline().split())
            assert value == number, (value, number)
            latencies.append(at - begin)
    finally:
        server.kill()
        server.wait()
    ordered = sorted(latencies)
    return {
        "records": len(ordered),
        "rows_per_record": statistics.median(counts),
        "median_s": statistics.median(ordered),
        "p90_s": ordered[int(0.9 * len(ordered))],
        "largest_s": ordered[-1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        follow(options.follow)
    table = filled(options.rows, options.dim)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "machine": {
                "cpu": platform.processor() or platform.machine(),
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            },
            "table": {"rows": options.rows, "dim": options.dim, "optimizer": "rowwise_adagrad", "batch": BATCH},
            "stall": measure_stall(table, options.rows, folder),
            "save": measure_save(table, options.rows, folder),
            "latency": measure_latency(table, options.rows, folder),
        }
    text = as_table(results)
    print(text)
    if options.out:
        (options.out / "checkpoints.json").write_text(json.dumps(results, indent=1) + "\n")
        (options.out / "checkpoints.md").write_text(text)
    return 0


def as_table(results: dict[str, dict[str, object]]) -> str:
    lines = ["# Checkpoints and delta stream of hash tables", ""]
    lines += [
        ", ".join(f"{key} {value}" for key, value in results[part].items()) + "." for part in ("machine", "table")
    ]
    lines += ["", "| figure | value |", "|---|---|"]
    for part in ("stall", "save", "latency"):
        for key, value in results[part].items():
            lines.append(f"| {part}: {key} | {f'{value:.4g}' if isinstance(value, float) else value} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
