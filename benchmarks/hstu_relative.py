"""The relative bias of HSTU attention beside attention without it, on a Hopper GPU: python -m benchmarks.hstu_relative

Same rows, same queries, keys and values (hstu_attention.py has the shapes and the clock): without a bias, with one
where all tokens have one time, so that each tile has one bucket, and where tokens follow each other by chance,
after 240 s in the mean: tiles near the diagonal have many buckets. A bucket is 1.35 times as wide as the one before.
Times hold all that a call does: the tables made before, the gradients of both tables. Medians of calls in turns.
Writes benchmarks/results/hstu-relative-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import bisect
import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from gr_ops.cuda import paths
from gr_ops.cuda.problem import Relative
from gr_ops.time_cells import cell_starts, cells_of

from .hstu_attention import RESULTS, Clock, Shape, Side, gpu

ASKED = 1.3  # times the time without a bias, in both directions
GAPS = {"one time": 0, "240 s": 240}  # seconds between tokens, in the mean
SHAPES = (Shape(8, 4096), Shape(32, 8000), Shape(32, 1024), Shape(8, 4096, contexts=16, targets=256))
BUCKETS = [0, *range(2, 5), *(int(5 * 1.35**n) for n in range(36))]  # where they start, in seconds


def biased(side: Side, mean: float) -> Side:
    """The side with tables and times drawn."""
    generator = torch.Generator("cuda").manual_seed(3)
    position, time = (
        torch.randn(n, device="cuda", generator=generator) * 0.1 for n in (side.shape.length, len(BUCKETS))
    )
    times = []
    for n in side.lengths:
        gaps = -mean * (1 - torch.rand(n, device="cuda", generator=generator)).log()
        times.append(10**9 + gaps.long().cumsum(0))
    starts = [bisect.bisect_right(BUCKETS, int(second)) - 1 for second in cell_starts().tolist()]
    cells = cells_of(torch.tensor(starts), torch.tensor(BUCKETS)).cuda()
    side.problem = replace(side.problem, relative=Relative(position, time, torch.cat(times), cells))
    return side


def measure(shape: Shape, clock: Clock, seconds: float) -> Iterator[dict[str, Any]]:
    sides = {"none": Side(shape)} | {name: biased(Side(shape), mean) for name, mean in GAPS.items()}
    for backward in (False, True):
        calls = {name: side.call("Hopper", backward) for name, side in sides.items()}
        taken = {name: call for name, call in calls.items() if call is not None}
        assert len(taken) == len(calls), f"{shape.name}: {paths.machine(0)} does not take it"
        times, _ = clock.times(taken, seconds)
        ms = {name: statistics.median(values) for name, values in times.items()}
        flop = shape.flop() * (2.5 if backward else 1)
        yield {
            "shape": shape.name,
            "direction": "backward" if backward else "forward",
            "ms": {name: round(value, 3) for name, value in ms.items()},
            "tflops": {name: round(flop / value / 1e9) for name, value in ms.items()},
            "ratio": {name: round(ms[name] / ms["none"], 2) for name in GAPS},
        }


def report(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    text = [
        "# The relative bias of HSTU attention on a GPU",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        "`python -m benchmarks.hstu_relative`; its head says how. 4 heads; ms (TFLOP/s, the bias not counted), and the "
        f"ratio to the time without a bias; asked is {ASKED}.",
        "",
        f"| shape | direction | no bias | {' | '.join(GAPS)} |",
        "|---|---|---|" + "---|" * len(GAPS),
    ]
    for row in rows:
        cells = [f"{row['ms']['none']} ({row['tflops']['none']})"]
        for name in GAPS:
            missed = "missed: " if row["ratio"][name] > ASKED else ""
            cells.append(f"{row['ms'][name]} ({row['tflops'][name]}), {missed}{row['ratio'][name]:.2f}")
        text.append(f"| {row['shape']} | {row['direction']} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each row")
    parser.add_argument("--commit", default="", help="what is measured")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    clock, name = Clock(), torch.cuda.get_device_name()
    about = {
        "device": name,
        "limit and top clock": gpu("power.limit,clocks.max.sm"),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": options.commit,
    }
    rows = []
    for shape in SHAPES:
        for row in measure(shape, clock, options.seconds):
            rows.append(row)
            print(json.dumps(row), flush=True)
    file = options.out / f"hstu-relative-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
    file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    file.with_suffix(".md").write_text(report(rows, about))


if __name__ == "__main__":
    main()
