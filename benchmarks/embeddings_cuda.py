"""python -m benchmarks.embeddings_cuda [--rows N] [--steps N] [--collections] [--output benchmarks/results/NAME]

Ten hash tables on one GPU (spec/targets.md, section 3: D=128 fp32, 1,048,570 ids a batch, power law 1.05) beside static
tables of the same rows in the same run: ids are row numbers there, and nothing is looked up or inserted.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton
from hybrid_torchrec import OptimizerSpec
from hybrid_torchrec.cuda import backend
from hybrid_torchrec.cuda.group import TableGroup

from .cuda_tables import (
    BATCHES,
    DIM,
    EXPONENT,
    LENGTH,
    TABLES,
    StaticTables,
    TorchTables,
    Workload,
    fill,
    tables,
)

RESULTS = Path(__file__).resolve().parent / "results"
BAG = 10  # ids of a bag of a collection
PUBLISHED = "lookup 0.64 ms (static 0.46), Adam's step 2.19 (static 1.35)"


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    ours: float  # milliseconds
    static: float
    torch: float
    ratio: float  # ours over the faster of the static ones
    low: float
    high: float
    host: float  # milliseconds until the host has launched ours


def timed(call: Callable[[int], object], steps: int) -> tuple[list[float], float]:
    """Milliseconds of each of `steps` calls on the device, and of the host's launching (median)."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(steps)]
    host = []
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    for i, (begin, end) in enumerate(events):
        torch.cuda._sleep(2_000_000)  # a millisecond in which the host gets ahead
        begin.record()
        started = time.perf_counter()
        call(i)
        host.append(1e3 * (time.perf_counter() - started))
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events], statistics.median(host)


def row(name: str, calls: tuple[Callable[[int], object], ...], steps: int) -> Row:
    """ours, static (our kernels without ids), torch."""
    (ours, host), (static, _), (plain, _) = (timed(call, steps) for call in calls)
    again, _ = timed(calls[0], steps)  # before and after the peers
    ours = [*ours, *again]
    best = min(statistics.median(static), statistics.median(plain))
    low, middle, high = statistics.quantiles(ours, n=4)
    return Row(name=name, ours=middle, static=statistics.median(static), torch=statistics.median(plain),
               ratio=middle / best, low=low / best, high=high / best, host=host)  # fmt: skip


def cases(rows: int, steps: int) -> Iterator[Row]:
    for kind in ("adagrad", "rowwise_adagrad", "adam"):
        for fresh in (0.0, 0.01, 0.1):
            work = Workload(rows, fresh)
            slack = 4 * LENGTH + (2 * steps + 20) * work.fresh  # room for batches on their way
            hashed = tables(kind, rows, slack)
            fill(hashed, work.known)
            group = TableGroup(hashed)
            static = StaticTables(kind, rows)
            plain = TorchTables(kind, rows)
            grads = torch.randn(TABLES * LENGTH, DIM, device="cuda")
            slots = group.assign(work.ids[0].flatten(), work.lengths, train=False)
            assert torch.equal(slots, work.slots[0]), "our slots are wrong"

            def serve(i: int, group=group, work=work) -> None:
                group.lookup(group.assign(work.ids[i % BATCHES].flatten(), work.lengths, train=False), work.lengths)

            def train(i: int, group=group, work=work, grads=grads) -> None:
                slots = group.assign(work.next_ids(i), work.lengths, train=True)
                group.lookup(slots, work.lengths)
                group.update(slots, work.lengths, grads)

            def train_one_by_one(i: int, hashed=hashed, work=work, grads=grads) -> None:
                parts = zip(hashed, work.next_ids(i).split(LENGTH), grads.split(LENGTH), strict=True)
                for table, ids, gradients in parts:
                    slots = table.assign(ids, train=True)
                    table.lookup(slots)
                    table.update(slots, gradients)

            (look, step), (plain_look, plain_step) = steps_of(static, work, grads), steps_of(plain, work, grads)
            if kind == "adagrad" and not fresh:
                yield row("lookup of present ids", (serve, look, plain_look), steps)
                yield row(f"{kind} step, tables one by one", (train_one_by_one, step, plain_step), steps)
            yield row(f"{kind} step, {fresh:.0%} of ids new", (train, step, plain_step), steps)
            del hashed, group, static, plain, train, train_one_by_one, serve
            torch.cuda.empty_cache()


def steps_of(peer, work: Workload, grads: torch.Tensor) -> tuple[Callable[[int], object], Callable[[int], object]]:
    """A peer's lookup, and its lookup and update."""

    def look(i: int) -> None:
        peer.lookup(work.slots[i % BATCHES])

    def step(i: int) -> None:
        look(i)
        peer.update(work.slots[i % BATCHES], grads)

    return look, step


def parts(rows: int, steps: int) -> dict[str, float]:
    """Milliseconds of the steps of a call, and the device's copy bandwidth."""
    work = Workload(rows, 0.0)
    hashed = tables("adagrad", rows, 4 * LENGTH + 11 * LENGTH)
    fill(hashed, work.known)
    group = TableGroup(hashed)
    grads = torch.randn(TABLES * LENGTH, DIM, device="cuda")
    keys = work.slots[0].int() + (torch.arange(TABLES, device="cuda").repeat_interleave(LENGTH) << 21).int()
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    new = torch.randint(-(2**63), 2**63 - 1, (steps + 3, TABLES * LENGTH), device="cuda")
    calls: dict[str, Callable[[int], object]] = {
        "find": lambda i: group.assign(work.ids[i % BATCHES].flatten(), work.lengths, train=False),
        "assign": lambda i: group.assign(work.ids[i % BATCHES].flatten(), work.lengths, train=True),
        "lookup": lambda i: group.lookup(work.slots[i % BATCHES], work.lengths),
        "index_select": lambda i: hashed[0].weights.index_select(0, work.slots[i % BATCHES]),
        "sort": lambda i: keys.sort(stable=True),
        "update": lambda i: group.update(work.slots[i % BATCHES], work.lengths, grads),
        "copy of 2 GiB": lambda i: target.copy_(source),
        "insertion of 1,048,570 new ids": lambda i: group.assign(new[i], work.lengths, train=True),
    }
    measured = {}
    for name, call in calls.items():
        times, host = timed(call, min(steps, 8) if name.startswith("insertion") else steps)
        measured[name] = statistics.median(times)
        measured[f"{name}: host"] = host
    distinct = sum(len(slots.unique()) for slots in work.slots[0].split(LENGTH))
    return {**measured, "distinct rows of a batch": distinct,
            "copy GB/s": 2 * source.nbytes / measured["copy of 2 GiB"] / 1e6}  # fmt: skip


def collections(rows: int, steps: int) -> dict[str, float]:
    """Milliseconds of steps of HashEmbeddingBagCollection, its tables in the same launches and one by one.

    Needs torchrec. The batch is Workload's, in bags of BAG ids.
    """
    from hybrid_torchrec.modules import HashEmbeddingBagCollection, HashEmbeddingBagConfig, together
    from torchrec import KeyedJaggedTensor

    work = Workload(rows, 0.0)
    length = LENGTH // BAG * BAG
    keys = [f"f{i}" for i in range(TABLES)]
    lengths = torch.full((TABLES * length // BAG,), BAG, device="cuda")
    ids = [batch[:, :length] for batch in work.ids]
    factors = torch.rand(TABLES * length, device="cuda")
    alone = together._divided, lambda parts, _: [(together.PartGroup([p]), [i]) for i, p in enumerate(parts)]
    measured = {}
    for weighted in (False, True):
        batches = [
            KeyedJaggedTensor(keys=keys, values=part.flatten(), lengths=lengths, weights=factors if weighted else None)
            for part in ids
        ]
        for divided, way in zip(alone, ("together", "one by one"), strict=True):
            together._divided = divided
            made = HashEmbeddingBagCollection(
                [HashEmbeddingBagConfig(name=f"t{i}", num_embeddings=rows, embedding_dim=DIM, feature_names=[keys[i]],
                                        optimizer=OptimizerSpec(kind="adagrad", lr=0.01),
                                        initial_capacity=rows + 8 * LENGTH) for i in range(TABLES)],
                is_weighted=weighted, device=torch.device("cuda"),
            )  # fmt: skip

            def step(i: int, made=made, batches=batches) -> None:
                made(batches[i % BATCHES]).values().sum().backward()

            for i in range(2 * BATCHES):
                step(i)  # rows are made
            times, host = timed(step, steps)
            name = f"{'weighted ' if weighted else ''}bag collection, tables {way}"
            measured |= {name: statistics.median(times), f"{name}: host": host}
            del made, step
            torch.cuda.empty_cache()
    together._divided = alone[0]
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings_cuda", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each table")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--collections", action="store_true", help="also steps of collections; needs torchrec")
    parser.add_argument("--sweep", action="store_true", help="sizes of the programs instead")
    parser.add_argument("--output", type=Path, default=RESULTS / "embeddings-cuda")
    arguments = parser.parse_args()
    if arguments.sweep:
        for updated in (1024, 2048, 4096):
            for warps in (1, 2, 4):
                backend.UPDATED = backend.GATHERED = updated
                backend.UPDATE_WARPS = backend.GATHER_WARPS = warps
                measured = parts(arguments.rows // 4, 12)
                print(updated, warps, {k: round(v, 3) for k, v in measured.items() if k in ("lookup", "update")})
        return
    names = ("what", "ours ms", "static ms", "torch ms", "ours / best static", "quartiles", "host ms")
    header = f"| {' | '.join(names)} |\n{'|---' * len(names)}|"
    print(header)
    lines, results = [], []
    for result in cases(arguments.rows, arguments.steps):
        results.append(result)
        lines.append(f"| {result.name} | {result.ours:.3f} | {result.static:.3f} | {result.torch:.3f} | "
                     f"{result.ratio:.2f} | {result.low:.2f} to {result.high:.2f} | {result.host:.3f} |")  # fmt: skip
        print(lines[-1], flush=True)
    steps = parts(arguments.rows, arguments.steps)
    if arguments.collections:
        steps |= collections(arguments.rows, arguments.steps)
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
             "python": platform.python_version()}  # fmt: skip
    data = {"machine": facts, "steps": arguments.steps, "rows": [asdict(r) for r in results], "parts": steps}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in facts.items())
    measured = "\n".join(f"| {name} | {value:.3f} |" for name, value in steps.items())
    text = (
        f"# Hash tables on a GPU\n\n{described}.\n\n{TABLES} tables of {arguments.rows:,} x {DIM} fp32, "
        f"{TABLES * LENGTH:,} ids a batch by a power law of exponent {EXPONENT}, medians of {arguments.steps} batches "
        "by device events. A step is ids to slots, lookup and update; the static peers have row numbers: `static` is "
        "our kernels on them, `torch` PyTorch's operators. Published by NVIDIA for dynamicemb on an H100: "
        f"{PUBLISHED}.\n\n"
    )
    table = "\n".join([header, *lines])
    arguments.output.with_suffix(".md").write_text(f"{text}{table}\n\n| part of it | ms |\n|---|---|\n{measured}\n")
    print(json.dumps(steps, indent=0))


if __name__ == "__main__":
    main()
