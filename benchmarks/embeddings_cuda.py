"""python -m benchmarks.embeddings_cuda [--rows N] [--steps N] [--kinds KIND ...] [--collections] [--output NAME]

Ten hash tables on one GPU (docs/targets.md: D=128 fp32, 1,048,570 ids a batch, power law 1.05) beside static
tables in the same run: ids are row numbers there, new ones included, and nothing is looked up or inserted.
"""

import argparse
import itertools
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
from hybrid_torchrec.backends.cuda import row_launches
from hybrid_torchrec.table.group import TableGroup

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


@dataclass(frozen=True, kw_only=True)
class Case:
    """prepare: batch number -> argument of call, outside of what is measured."""

    prepare: Callable[[int], torch.Tensor]
    call: Callable[[torch.Tensor], object]


def timed(case: Case, steps: int) -> tuple[list[float], float]:
    """Milliseconds of each of `steps` calls on the device, and of the host's launching (median)."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(steps)]
    host = []
    for i in range(3):
        case.call(case.prepare(i))
    torch.cuda.synchronize()
    for i, (begin, end) in enumerate(events):
        given = case.prepare(i)
        torch.cuda._sleep(2_000_000)  # a millisecond in which the host gets ahead
        begin.record()
        started = time.perf_counter()
        case.call(given)
        host.append(1e3 * (time.perf_counter() - started))
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events], statistics.median(host)


def row(name: str, ours_of: Case, static_of: Case, torch_of: Case, steps: int) -> Row:
    (ours, host), (static, _), (plain, _) = (timed(case, steps) for case in (ours_of, static_of, torch_of))
    again, _ = timed(ours_of, steps)  # before and after the peers
    ours = [*ours, *again]
    best = min(statistics.median(static), statistics.median(plain))
    low, middle, high = statistics.quantiles(ours, n=4)
    return Row(
        name=name,
        ours=middle,
        static=statistics.median(static),
        torch=statistics.median(plain),
        ratio=middle / best,
        low=low / best,
        high=high / best,
        host=host,
    )


def cases(rows: int, steps: int, kinds: list[str]) -> Iterator[Row]:
    work = Workload(rows)
    for kind in kinds:
        for fresh in (0.0, 0.01, 0.1):
            work.reset(fresh)
            slack = 4 * LENGTH + (2 * steps + 8) * work.fresh  # room for batches on their way
            hashed = tables(kind, rows, slack)
            fill(hashed, work.known)
            group = TableGroup(hashed)
            static = StaticTables(kind, rows)
            plain = TorchTables(kind, rows)
            grads = torch.randn(TABLES * LENGTH, DIM, device="cuda")
            slots = group.assign(work.ids[0].flatten(), work.lengths, train=False)
            assert torch.equal(slots, work.slots[0]), "our slots are wrong"

            def serve(ids: torch.Tensor, group=group) -> None:
                group.lookup(group.assign(ids, work.lengths, train=False), work.lengths)

            def train(ids: torch.Tensor, group=group, grads=grads) -> None:
                slots = group.assign(ids, work.lengths, train=True)
                group.lookup(slots, work.lengths)
                group.update(slots, work.lengths, grads)

            def train_one_by_one(ids: torch.Tensor, hashed=hashed, grads=grads) -> None:
                parts = zip(hashed, ids.split(LENGTH), grads.split(LENGTH), strict=True)
                for table, ids, gradients in parts:
                    slots = table.assign(ids, train=True)
                    table.lookup(slots)
                    table.update(slots, gradients)

            (look, step), (plain_look, plain_step) = (steps_of(peer, work, grads) for peer in (static, plain))
            ours = (Case(prepare=work.next_ids, call=call) for call in (serve, train_one_by_one, train))
            ours_look, ours_one_by_one, ours_step = ours
            if kind == "adagrad" and not fresh:
                yield row("lookup of present ids", ours_look, look, plain_look, steps)
                yield row(f"{kind} step, tables one by one", ours_one_by_one, step, plain_step, steps)
            yield row(f"{kind} step, {fresh:.0%} of ids new", ours_step, step, plain_step, steps)
            del hashed, group, static, plain, train, train_one_by_one, serve, ours, ours_look, ours_one_by_one
            del ours_step, look, step, plain_look, plain_step
            torch.cuda.empty_cache()


def steps_of(peer: StaticTables | TorchTables, work: Workload, grads: torch.Tensor) -> tuple[Case, Case]:
    """A peer's lookup, and its lookup and update."""

    def step(slots: torch.Tensor) -> None:
        peer.lookup(slots)
        peer.update(slots, grads)

    return Case(prepare=work.next_slots, call=peer.lookup), Case(prepare=work.next_slots, call=step)


def parts(rows: int, steps: int) -> dict[str, float]:
    """Milliseconds of the steps of a call, and the device's copy bandwidth."""
    work = Workload(rows)
    hashed = tables("adagrad", rows, 4 * LENGTH + 11 * LENGTH)
    fill(hashed, work.known)
    group = TableGroup(hashed)
    grads = torch.randn(TABLES * LENGTH, DIM, device="cuda")
    keys = work.slots[0].int() + (torch.arange(TABLES, device="cuda").repeat_interleave(LENGTH) << 21).int()
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    new = torch.randint(-(2**63), 2**63 - 1, (steps + 3, TABLES * LENGTH), device="cuda")
    ids, slots = work.next_ids, work.next_slots
    turn = itertools.count()
    calls: dict[str, tuple[Callable[[int], torch.Tensor], Callable[[torch.Tensor], object]]] = {
        "find": (ids, lambda given: group.assign(given, work.lengths, train=False)),
        "assign, until slots are there": (ids, lambda given: group.assign(given, work.lengths, train=True)),
        "lookup": (slots, lambda given: group.lookup(given, work.lengths)),
        "index_select": (slots, lambda given: hashed[0].weights.index_select(0, given)),
        "sort": (slots, lambda given: keys.sort(stable=True)),
        "update": (slots, lambda given: group.update(given, work.lengths, grads)),
        "copy of 2 GiB": (slots, lambda given: target.copy_(source)),
        "insertion of 1,048,570 new ids, until slots are there": (
            lambda i: new[next(turn)],
            lambda given: group.assign(given, work.lengths, train=True),
        ),
    }
    measured = {}
    for name, (prepare, call) in calls.items():
        case = Case(prepare=prepare, call=call)
        times, host = timed(case, min(steps, 8) if name.startswith("insertion") else steps)
        measured[name] = statistics.median(times)
        measured[f"{name}: host"] = host
    distinct = sum(len(slots.unique()) for slots in work.slots[0].split(LENGTH))
    return {
        **measured,
        "distinct rows of a batch": distinct,
        "copy GB/s": 2 * source.nbytes / measured["copy of 2 GiB"] / 1e6,
    }


def collections(rows: int, steps: int) -> dict[str, float]:
    """Milliseconds of steps of HashEmbeddingBagCollection, its tables in the same launches and one by one.

    Needs torchrec. The batch is Workload's, in bags of BAG ids.
    """
    from hybrid_torchrec.modules import HashEmbeddingBagCollection, HashEmbeddingBagConfig, grouping
    from torchrec import KeyedJaggedTensor

    work = Workload(rows)
    length = LENGTH // BAG * BAG
    keys = [f"f{i}" for i in range(TABLES)]
    lengths = torch.full((TABLES * length // BAG,), BAG, device="cuda")
    ids = [batch[:, :length] for batch in work.ids]
    factors = torch.rand(TABLES * length, device="cuda")
    alone = grouping._divided, lambda parts, _: [(grouping.PartGroup([p]), [i]) for i, p in enumerate(parts)]
    measured = {}
    for weighted in (False, True):
        batches = [
            KeyedJaggedTensor(keys=keys, values=part.flatten(), lengths=lengths, weights=factors if weighted else None)
            for part in ids
        ]
        for divided, way in zip(alone, ("together", "one by one"), strict=True):
            grouping._divided = divided
            made = HashEmbeddingBagCollection(
                [
                    HashEmbeddingBagConfig(
                        name=f"t{i}",
                        num_embeddings=rows,
                        embedding_dim=DIM,
                        feature_names=[keys[i]],
                        optimizer=OptimizerSpec(kind="adagrad", lr=0.01),
                        initial_capacity=rows + 8 * LENGTH,
                    )
                    for i in range(TABLES)
                ],
                is_weighted=weighted,
                device=torch.device("cuda"),
            )

            def step(which: torch.Tensor, made=made, batches=batches) -> None:
                made(batches[int(which)]).values().sum().backward()

            case = Case(prepare=lambda i: torch.tensor(i % BATCHES), call=step)
            for i in range(2 * BATCHES):
                case.call(case.prepare(i))  # rows are made
            times, host = timed(case, steps)
            name = f"{'weighted ' if weighted else ''}bag collection, tables {way}"
            measured |= {name: statistics.median(times), f"{name}: host": host}
            del made, step, case
            torch.cuda.empty_cache()
    grouping._divided = alone[0]
    return measured


NAMES = ("what", "ours ms", "static ms", "torch ms", "ours / best static", "quartiles", "host ms")
HEADER = f"| {' | '.join(NAMES)} |\n{'|---' * len(NAMES)}|"


def line(row: Row) -> str:
    return (
        f"| {row.name} | {row.ours:.3f} | {row.static:.3f} | {row.torch:.3f} | {row.ratio:.2f} | "
        f"{row.low:.2f} to {row.high:.2f} | {row.host:.3f} |"
    )


def page(data: dict, rows: int) -> str:
    """What main wrote to the JSON file, of tables of so many rows, as Markdown."""
    described = ", ".join(f"{name} {value}" for name, value in data["machine"].items())
    measured = "\n".join(f"| {name} | {value:.3f} |" for name, value in data["parts"].items())
    table = "\n".join([HEADER, *(line(Row(**row)) for row in data["rows"])])
    return (
        f"# Hash tables on a GPU\n\n{described}.\n\n{TABLES} tables of {rows:,} x {DIM} fp32, {TABLES * LENGTH:,} ids "
        f"a batch by a power law of exponent {EXPONENT}, medians of {data['steps']} batches by device events. A step "
        "is ids to slots, lookup and update; the static peers have row numbers, new ids included, so that they move as "
        "many rows: `static` is our kernels on them, `torch` PyTorch's operators; fbgemm's table for CUDA was not "
        "there. Tables share launches but where they go one by one, which the host's launches bound, and no wait for "
        "the device. `host` is how long it takes to launch a step; a group sorts the batch and counts its sightings "
        f"beside the lookup. Published by NVIDIA for dynamicemb on an H100: {PUBLISHED}."
        f"\n\n{table}\n\n| part of it | ms |\n|---|---|\n{measured}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings_cuda", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each table")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--kinds", nargs="*", default=["adagrad", "rowwise_adagrad", "adam"], help="of optimizers")
    parser.add_argument("--collections", action="store_true", help="also steps of collections; needs torchrec")
    parser.add_argument("--sweep", action="store_true", help="sizes of the programs instead")
    parser.add_argument("--output", type=Path, default=RESULTS / "embeddings-cuda")
    arguments = parser.parse_args()
    if arguments.sweep:
        for updated in (1024, 2048, 4096):
            for warps in (1, 2, 4):
                row_launches.UPDATED = row_launches.GATHERED = updated
                row_launches.UPDATE_WARPS = row_launches.GATHER_WARPS = warps
                measured = parts(arguments.rows // 4, 12)
                print(updated, warps, {k: round(v, 3) for k, v in measured.items() if k in ("lookup", "update")})
        return
    print(HEADER)
    results = []
    for result in cases(arguments.rows, arguments.steps, arguments.kinds):
        results.append(result)
        print(line(result), flush=True)
    steps = parts(arguments.rows, arguments.steps)
    if arguments.collections:
        steps |= collections(arguments.rows, arguments.steps)
    facts = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }
    data = {"machine": facts, "steps": arguments.steps, "rows": [asdict(r) for r in results], "parts": steps}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text(page(data, arguments.rows))
    print(json.dumps(steps, indent=0))


if __name__ == "__main__":
    main()
