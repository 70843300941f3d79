"""hstu_paged on one NVIDIA GPU: new tokens against keys in pages: python -m benchmarks.hstu_paged

Its peer is hstu_varlen on the same keys and values gathered before, in one piece: what pages cost is the ratio. A call
reads every key and value once, so its rate is also given as bytes of these by second. Timed as in hstu_attention.py, in
turns; before a row is timed both results are compared. Writes benchmarks/results/hstu-paged-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from gr_ops.cuda import attention
from gr_ops.cuda.problem import Pages, Problem

from .hstu_attention import HEADS, RESULTS, Clock, gpu

DIM = 128


@dataclass(frozen=True)
class Shape:
    batch: int
    cached: int
    new: int
    page: int

    @property
    def name(self) -> str:
        return f"{self.batch} rows, {self.cached} cached, {self.new} new, pages of {self.page}"

    @property
    def bytes(self) -> int:
        return 2 * self.batch * (self.cached + self.new) * HEADS * DIM * 2

    @property
    def flop(self) -> float:
        return 4 * HEADS * DIM * self.batch * self.new * (self.cached + self.new / 2)


SHAPES = (
    *(Shape(32, 4096, 64, page) for page in (16, 32, 64, 128)),
    Shape(64, 2048, 16, 64),
    Shape(128, 1000, 8, 32),
    Shape(16, 8000, 512, 128),
)


def problems(shape: Shape) -> tuple[Problem, Problem]:
    """In pages, and gathered."""
    torch.manual_seed(0)
    rows, count = shape.batch * shape.new, -(-shape.cached // shape.page)
    shuffled = torch.randperm(shape.batch * count, device="cuda")
    cache = torch.randn(len(shuffled), 2, shape.page, HEADS, DIM, device="cuda").bfloat16()
    q, k, v = (torch.randn(rows, HEADS, DIM, device="cuda").bfloat16() for _ in range(3))
    steps = torch.arange(shape.batch + 1, device="cuda")
    last = torch.full((shape.batch,), shape.cached - (count - 1) * shape.page, device="cuda")
    known = {"offsets": steps * shape.new, "longest": shape.new, "most_keys": shape.cached + shape.new}
    known |= {"scale": 1 / (shape.cached + shape.new)}
    gathered = []
    for part, fresh in enumerate((k, v)):
        old = cache[shuffled, part].reshape(shape.batch, -1, HEADS, DIM)[:, : shape.cached]
        gathered.append(torch.cat((old, fresh.unflatten(0, (shape.batch, -1))), 1).flatten(0, 1))
    pages = Pages(cache, steps * count, shuffled, last)
    offsets = steps * (shape.cached + shape.new)
    return Problem(q=q, k=k, v=v, pages=pages, **known), Problem(
        q=q, k=gathered[0], v=gathered[1], key_offsets=offsets, **known
    )


def measure(shape: Shape, clock: Clock, seconds: float) -> dict[str, Any]:
    paged, varlen = problems(shape)
    outs = [torch.full_like(paged.q, torch.nan) for _ in range(2)]
    calls = {
        "paged": lambda: attention.attend(paged, outs[0]),
        "gathered": lambda: attention.attend(varlen, outs[1]),
    }
    for call in calls.values():
        call()
    apart = float((outs[0].double() - outs[1].double()).norm() / outs[1].double().norm())
    assert apart < 1e-3, (shape, apart)
    times, host = clock.times(calls, seconds)
    ms = {name: statistics.median(values) for name, values in times.items()}
    ratios = [b / a for a, b in zip(times["paged"], times["gathered"])]
    return {
        "shape": shape.name,
        "ms": {name: round(value, 4) for name, value in ms.items()},
        "host_ms": {name: round(value, 3) for name, value in host.items()},
        "gathered_over_paged": [round(x, 3) for x in statistics.quantiles(ratios, n=4)],
        "gigabytes_per_second": round(shape.bytes / ms["paged"] / 1e6),
        "tflops": round(shape.flop / ms["paged"] / 1e9),
        "difference": apart,
    }


def report(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    text = [
        "# New tokens against keys in pages, on a GPU",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        f"`python -m benchmarks.hstu_paged`; its head says how. bfloat16, {HEADS} heads of {DIM}. Ratio: the time on "
        "gathered keys over that on pages, quartiles in brackets.",
        "",
        "| shape | paged ms | gathered ms | ratio | GB/s of keys and values | TFLOP/s |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, middle, high = row["gathered_over_paged"]
        text.append(
            f"| {row['shape']} | {row['ms']['paged']:.4f} | {row['ms']['gathered']:.4f} | "
            f"{middle:.2f} ({low:.2f} to {high:.2f}) | {row['gigabytes_per_second']} | {row['tflops']} |"
        )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row")
    parser.add_argument("--commit", required=True, help="what is measured")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    clock, name = Clock(), torch.cuda.get_device_name()
    about = {"device": name, "limit and top clock": gpu("power.limit,clocks.max.sm"), "torch": torch.__version__}
    about |= {"triton": triton.__version__, "commit": options.commit}
    rows = [measure(shape, clock, options.seconds) for shape in SHAPES]
    file = options.out / f"hstu-paged-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
    file.with_suffix(".md").write_text(report(rows, about))
    file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    print(report(rows, about))


if __name__ == "__main__":
    main()
