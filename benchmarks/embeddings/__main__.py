"""python -m benchmarks.embeddings [--rounds N] [--rows N] [--output benchmarks/results/NAME]

Hash tables on one thread of the CPU, timed by its processor time, calls in turn with the peer's. malloc keeps what is
freed, for both (kept_memory.py).
"""

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.setdefault("MXREC_NO_FBGEMM_OVERRIDE", "1")

import kept_memory  # noqa: E402
import torch  # noqa: E402

from . import ids, tables  # noqa: E402
from .stream import WARM_UP, Duel, Result, Timing, machine, run  # noqa: E402

BATCH = 1 << 17  # ids, or distinct rows
LEAST_ROWS = 10 * BATCH
RESULTS = Path(__file__).resolve().parent.parent / "results"
TIMING = ("peer's", "ratio", "quartiles", "faults")
COLUMNS = ("what", "peer", "cold: ours", *TIMING, "warm: ours", *TIMING, "asked")
HEADER = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def cases(rows: int, rounds: int) -> Iterator[Duel]:
    yield from ids.duels(rows, 1 << 20, rounds)
    yield from tables.duels(rows // 10, 128, BATCH, rounds)
    yield from tables.bandwidth(rows // 10, 128, BATCH, rounds)


def speed(value: float, unit: str) -> str:
    return f"{value / 1e9:.1f} G{unit}" if unit == "B/s" else f"{value / 1e6:.1f} M {unit}"


def of(timing: Timing, unit: str) -> str:
    return (
        f"{speed(timing.ours, unit)} | {speed(timing.theirs, unit)} | {timing.ratio:.2f} | "
        f"{timing.low:.2f} to {timing.high:.2f} | {timing.faults[0]:,.0f} / {timing.faults[1]:,.0f}"
    )


def line(result: Result) -> str:
    wanted = f"{'missed ' if result.missed else ''}{result.asked:g}" if result.asked else "a bound"
    timings = f"{of(result.cold, result.unit)} | {of(result.warm, result.unit)}"
    return f"| {result.name} | {result.peer} | {timings} | {wanted} |"


def asked(results: list[Result]) -> str:
    """What is asked of ids to slots, and what of it this machine cannot do."""
    by_peer = {result.peer: result.cold for result in results}
    collisions, transformer, lines = (by_peer[peer] for peer in (ids.COLLISIONS, ids.TRANSFORMER, ids.LINES))
    needed = 20 * transformer.theirs
    text = (
        f"Asked of present ids, cold: 40 M a second (here {collisions.ours / 1e6:.0f} M), 5 times torchrec's managed "
        f"collisions (here {collisions.ratio:.0f}), 20 times the ID transformer (here {transformer.ratio:.1f}).\n"
    )
    if lines.theirs < needed:
        text += (
            f"The last cannot be reached beside a transformer in C++: {needed / 1e6:.0f} M ids/s would be needed, and\n"
            "fetching the cache lines that an exact lookup with counts must touch, two an id, without any search,\n"
            f"does {lines.theirs / 1e6:.0f} M on this machine.\n"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the id map; tables have a tenth")
    parser.add_argument("--output", type=Path, default=RESULTS / "embeddings-cpu")
    arguments = parser.parse_args()
    if arguments.rows < LEAST_ROWS:
        parser.error(f"--rows must be at least {LEAST_ROWS}: a tenth holds a batch of {BATCH}")
    kept_memory.keep()
    torch.set_num_threads(1)
    print(HEADER)
    results = []
    for duel in cases(arguments.rows, arguments.rounds + WARM_UP):
        results.append(run(duel, arguments.rounds))
        print(line(results[-1]), flush=True)
    facts = machine()
    missed = sum(result.missed for result in results)
    rows = [asdict(result) for result in results]
    data = {
        "machine": facts,
        "kept memory": kept_memory.SETTINGS,
        "missed": missed,
        "rounds": arguments.rounds,
        "rows": rows,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    described = ", ".join(f"{name} {value}" for name, value in facts.items())
    wanted = [result for result in results if result.asked]
    text = (
        f"# Hash tables on the CPU\n\n{described}.\n\nOne thread, its processor time, {arguments.rounds} rounds in "
        "turn with the peer; speeds are medians, the ratio is ours over the peer's (above 1: ours is faster), with the "
        "quartiles of the rounds' ratios. Cold: a batch that no call has had before; warm: the same batch again, at "
        "once, new ids into a new map. Both count. Ids follow a power law of exponent 1.05, new ones are random.\n\n"
        "malloc keeps what is freed, for both sides. Faults: pages that the system gave in a call (median), ours / the "
        "peer's. Hash tables have their memory not from malloc but from a pool that keeps 64 MiB and lends what is "
        "more to the system, up to 1 GiB.\n\n"
        f"{sum(not result.missed for result in wanted)} of {len(wanted)} rows reach what is asked for.\n\n"
    )
    arguments.output.with_suffix(".md").write_text(
        text + "\n".join([HEADER, *map(line, results)]) + "\n\n" + asked(results)
    )


if __name__ == "__main__":
    main()
