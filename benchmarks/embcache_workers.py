"""The training step of a cached table on two workers beside one that does the same work.

    python benchmarks/embcache_workers.py [--rows N] [--batch N] [--rounds N] [--output FILE]

Table (``--rows``), cache (a twentieth), rows in host memory (a quarter; the rest is on disk) and the batch are the same
in all for one worker and for two, who have a half of each. A worker is a process with one core and one thread, which
also prefetches, writes to disk and does its share of the exchange (gloo over the loopback device). A step:
EmbCacheTrainPipelineSparseDist over a sharded EmbCacheEmbeddingCollection, a dense layer on every id's row, backward,
DistributedDataParallel. Rounds of one and of two workers alternate; a ratio is that of neighbouring rounds: the time of
one over that of two, of which 1.8 is asked; and of the processor time of one over that of the busier of two. Needs two
idle cores: on a busy machine the two workers wait for each other's turns.

glibc gives blocks of 32 MiB and more back to the system at once. Only one worker's activations are as large, so it
would fault them in anew in every step, and two workers would seem faster by that: all processes keep their memory
(kept_memory.py).
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from hybrid_torchrec import OptimizerSpec  # noqa: E402
from hybrid_torchrec.hashing import rank_of  # noqa: E402
from hybrid_torchrec.table import RowBatch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torchrec import KeyedJaggedTensor  # noqa: E402
from torchrec.distributed import DistributedModelParallel  # noqa: E402
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology  # noqa: E402
from torchrec.distributed.planner.types import ParameterConstraints  # noqa: E402
from torchrec.streamable import Pipelineable  # noqa: E402
from torchrec_embcache.cache import CachedTable  # noqa: E402
from torchrec_embcache.distributed import ShardedCached, get_default_embcache_sharders  # noqa: E402
from torchrec_embcache.modules import EmbCacheEmbeddingCollection, EmbCacheEmbeddingConfig  # noqa: E402
from torchrec_embcache.pipeline import EmbCacheTrainPipelineSparseDist  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kept_memory  # noqa: E402
from embcache import RESULTS, Stream, quartiles  # noqa: E402

ODD = -7046029254386353131
ASKED = 1.8
CPU = torch.device("cpu")


@dataclass
class Batch(Pipelineable):
    features: KeyedJaggedTensor

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        return Batch(self.features.to(device, non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        self.features.record_stream(stream)

    def pin_memory(self) -> Batch:
        return self


class Model(nn.Module):
    """A dense layer of `width` on the row of each id, and its square."""

    def __init__(self, collection: nn.Module, dim: int, width: int) -> None:
        super().__init__()
        self.sparse = collection
        self.dense = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, dim))

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        rows = self.sparse(batch.features)["item"].values()
        out = self.dense(rows)
        return out.square().mean(), out


def sharded(options: argparse.Namespace, world: int) -> nn.Module:
    config = EmbCacheEmbeddingConfig(
        name="item",
        embedding_dim=options.dim,
        num_embeddings=options.rows,
        feature_names=["item"],
        optimizer=OptimizerSpec(kind="rowwise_adagrad", lr=0.01),
        cache_rows=options.rows // options.factor,
        host_rows=options.rows // options.host_factor,
        folder=str(options.store.with_suffix(".rows")),
    )
    model = Model(EmbCacheEmbeddingCollection([config], device=torch.device("meta")), options.dim, options.dense)
    sharders = get_default_embcache_sharders()
    constraints = {"item": ParameterConstraints(sharding_types=["row_wise"])}
    topology = Topology(world_size=world, compute_device="cpu", local_world_size=world)
    planner = EmbeddingShardingPlanner(topology=topology, constraints=constraints)
    plan = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    return DistributedModelParallel(model, device=CPU, plan=plan, sharders=sharders)


def fill(table: CachedTable, rows: int, rank: int, world: int) -> None:
    """The rank's share of the table, below the cache."""
    for names in torch.arange(1, rows + 1).split(1 << 18):
        ids = names * ODD
        ids = ids[rank_of(ids, world) == rank]
        count = len(ids)
        table.write(
            RowBatch(
                ids=ids,
                weights=torch.randn(count, table.config.dim) * 0.01,
                state={"momentum1": torch.ones(count)},
                shows=torch.ones(count),
                clicks=torch.zeros(count),
                last_step=torch.zeros(count, dtype=torch.int64),
            )
        )


def batches(options: argparse.Namespace, rank: int, world: int, steps: int) -> Iterator[Batch]:
    stream = Stream(options.rows, options.batch, options.exponent)
    for step in range(steps):
        ids = stream.batch(step).chunk(world)[rank]
        yield Batch(KeyedJaggedTensor(["item"], ids, lengths=torch.ones(len(ids), dtype=torch.int64)))


def work(options: argparse.Namespace) -> None:
    """One worker: prints the seconds of the measured steps."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=rank, world_size=world)
    model = sharded(options, world)
    (module,) = [module for module in model.modules() if isinstance(module, ShardedCached)]
    (table,) = module.cached_tables()["item"]
    fill(table, options.rows, rank, world)
    table.flush()
    dense = torch.optim.SGD(model.module.dense.parameters(), lr=0.01)
    pipeline = EmbCacheTrainPipelineSparseDist(model, dense, CPU, look_ahead=options.look_ahead)
    loader = iter(list(batches(options, rank, world, options.warm_up + options.steps + options.look_ahead)))
    for _ in range(options.warm_up):
        pipeline.progress(loader)
    dist.barrier()
    before = table.disk_stats()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(options.steps):
        pipeline.progress(loader)
    while table.waiting_rows:  # what these steps have left to write is theirs
        time.sleep(0.0005)
    used = time.process_time() - used
    dist.barrier()
    seconds, after = time.perf_counter() - start, table.disk_stats()
    assert before is not None and after is not None
    disk = {"mb_read": after.bytes_read - before.bytes_read, "mb_written": after.bytes_written - before.bytes_written}
    figures = {"seconds": seconds, "process_seconds": used, **{name: count / 1e6 for name, count in disk.items()}}
    print(json.dumps(figures))
    dist.barrier()
    module.close()


def measured(options: argparse.Namespace, world: int, folder: Path) -> dict[str, float]:
    """Seconds a step, of wall time and of processor time of the busier worker, and MB a step of its disk."""
    store = folder / "store"
    env = {
        **os.environ,
        **kept_memory.SETTINGS,
        "WORLD_SIZE": str(world),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    argv = [sys.executable, *sys.argv, "--store", str(store)]
    workers = [
        subprocess.Popen(argv, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    try:
        results = [json.loads(worker.communicate(timeout=400)[0].splitlines()[-1]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return {name: max(result[name] for result in results) / options.steps for name in results[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table")
    parser.add_argument("--factor", type=int, default=20)
    parser.add_argument("--host-factor", type=int, default=4, help="rows / rows in host memory")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dense", type=int, default=256, help="width of the dense layer")
    parser.add_argument("--batch", type=int, default=32_768, help="ids, of all workers")
    parser.add_argument("--exponent", type=float, default=1.05)
    parser.add_argument("--look-ahead", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=12, help="steps")
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--output", type=Path, default=RESULTS / "embcache-workers")
    parser.add_argument("--store", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store is not None:
        work(options)
        return
    runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for world, results in runs.items():
            with tempfile.TemporaryDirectory() as name:  # each run has the room and the memory that all others have
                results.append(measured(options, world, Path(name)))
    pairs = list(zip(runs[1], runs[2], strict=True))
    result: dict[str, Any] = {
        "speedup": quartiles([one["seconds"] / two["seconds"] for one, two in pairs]),
        "speedup by processor time": quartiles([one["process_seconds"] / two["process_seconds"] for one, two in pairs]),
        "a step": {
            world: {name: statistics.median(run[name] for run in results) for name in results[0]}
            for world, results in runs.items()
        },
        "rounds": {world: [run["seconds"] * 1e3 for run in results] for world, results in runs.items()},
    }
    settings = {name: value for name, value in vars(options).items() if name not in ("output", "store")}
    facts = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        **kept_memory.SETTINGS,
        **settings,
    }
    options.output.with_suffix(".json").write_text(json.dumps({**facts, "result": result}, indent=1) + "\n")
    lines = ["# Step of a cached table on two workers beside one", ""]
    lines += [f"`python benchmarks/embcache_workers.py`; its head says how: {json.dumps(facts)}", ""]
    lines += ["| ratio | median (quartiles) | 1.8 asked |", "|---|---|---|"]
    for name in ("speedup", "speedup by processor time"):
        found = result[name]
        word = "reached" if found["median"] >= ASKED else "missed"
        lines.append(f"| {name} | {found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f}) | {word} |")
    lines += ["", "| workers | ms a step | processor ms of the busier | MB read from its disk | MB written |"]
    lines += ["|---|---|---|---|---|"]
    for world, step in result["a step"].items():
        times = f"{step['seconds'] * 1e3:.1f} | {step['process_seconds'] * 1e3:.1f}"
        lines.append(f"| {world} | {times} | {step['mb_read']:.2f} | {step['mb_written']:.2f} |")
    options.output.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
