"""What a layer of HSTU does around its attention on a GPU, by hstu_projection and hstu_gated_output and by PyTorch's
operators: python -m benchmarks.hstu_layer

The layer is gr_model's, of the article's and of the deep model's widths under autocast in bfloat16, its attention left
out. PyTorch's operators run as the model runs them (eager), and by torch.compile (compiled). Before a row is timed,
outputs and gradients of 1,000 tokens are compared with float64: the error is the largest of theirs, relative by norms.
The sides take turns, call by call (hstu_attention.py has the clock); medians. Backward is that of autograd. The least
is the time for arguments and results once at the memory's speed, or for the products at the matrix units' speed,
whichever is longer. Writes benchmarks/results/hstu-layer-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gr_ops  # noqa: F401
import torch
import torch._functorch.config
import triton

from gr_model.config import ModelConfig
from gr_model.model.hstu import HSTULayer

from .hstu_attention import RESULTS, Call, Clock, gpu

BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12}  # bytes a second
RATE = 989e12  # products and additions a second
BOUND = 1e-2  # of errors
CHECKED = 1000  # tokens
Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Shape:
    name: str
    tokens: int
    dim: int
    heads: int
    head_dim: int

    @property
    def width(self) -> int:
        return self.heads * self.head_dim

    def least(self, gate: bool, backward: bool, device: str) -> float:
        """Milliseconds."""
        x, row = 4 * self.dim, 2 * self.width
        once = 2 * row + 2 * x if gate else x + 4 * row
        again = 4 * row + x if gate else 2 * x + 4 * row
        flop = 2 * self.dim * self.width * (1 if gate else 4) * (2 if backward else 1)
        speed = next((value for name, value in BANDWIDTH.items() if name in device), BANDWIDTH["H100"])
        return 1e3 * self.tokens * max((again if backward else once) / speed, flop / RATE)


SHAPES = (
    Shape("article", 253_573, 512, 4, 128),
    Shape("deep", 130_938, 1024, 4, 256),
)


class Side:
    """A layer, and tensors of so many tokens."""

    def __init__(self, shape: Shape, tokens: int, attention: str, compiled: bool = False, wide: bool = False) -> None:
        torch.manual_seed(3)
        config = ModelConfig(
            dim=shape.dim, heads=shape.heads, qk_dim=shape.head_dim, value_dim=shape.head_dim, attention=attention
        )
        # Dropout draws elements of its own on each side, so errors are those of the layer without it.
        self.layer = HSTULayer(config).cuda()
        self.layer.train(not wide and tokens > CHECKED)
        self.autocast = not wide
        self.x, *rows = (torch.randn(tokens, n, device="cuda") for n in (shape.dim, *(shape.width,) * 6))
        self.attended, self.u, *self.grads = (x.bfloat16() for x in rows)
        self.grad = torch.randn_like(self.x)
        if wide:
            self.layer.double()
            self.x, self.attended, self.u, self.grad = (x.double() for x in (self.x, self.attended, self.u, self.grad))
            self.grads = [x.double() for x in self.grads]
        for leaf in (self.x, self.attended, self.u):
            leaf.requires_grad_()
        if compiled:
            for name in HSTULayer.COMPILED:
                setattr(self.layer, name, torch.compile(getattr(self.layer, name), dynamic=True, fullgraph=True))

    def forward(self, gate: bool) -> Tensors:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
            if gate:
                return [self.layer.add_gated(self.x, self.attended, self.u)]
            return list(self.layer.project(self.x))[1:]  # the first is x itself

    def call(self, gate: bool, backward: bool) -> Call:
        if not backward:
            return lambda: self.forward(gate)
        outs, grads = self.forward(gate), [self.grad] if gate else self.grads
        leaves = self.leaves(gate)
        return lambda: torch.autograd.grad(outs, leaves, grads, retain_graph=True)

    def leaves(self, gate: bool) -> Tensors:
        if gate:
            return [self.x, self.attended, self.u, *self.layer.output.parameters()]
        return [self.x, self.layer.uvqk]

    def found(self, gate: bool) -> Tensors:
        outs = self.forward(gate)
        return [*outs, *torch.autograd.grad(outs, self.leaves(gate), [self.grad] if gate else self.grads)]


def error(shape: Shape, gate: bool, make: Callable[[int], Side]) -> float:
    found, right = make(CHECKED).found(gate), Side(shape, CHECKED, "plain", wide=True).found(gate)
    return max(float((a.double() - b).norm() / b.norm()) for a, b in zip(found, right, strict=True))


def measure(shape: Shape, clock: Clock, seconds: float, device: str) -> Iterator[dict[str, Any]]:
    makers: dict[str, Callable[[int], Side]] = {
        "ours": lambda tokens: Side(shape, tokens, "fused"),
        "eager": lambda tokens: Side(shape, tokens, "plain"),
        "compiled": lambda tokens: Side(shape, tokens, "plain", compiled=True),
    }
    for gate in (False, True):
        errors = {name: error(shape, gate, make) for name, make in makers.items() if name != "compiled"}
        assert errors["ours"] < BOUND, (shape, gate, errors)
        sides = {name: make(shape.tokens) for name, make in makers.items()}
        for backward in (False, True):
            times, _ = clock.times({name: side.call(gate, backward) for name, side in sides.items()}, seconds)
            ms = {name: statistics.median(values) for name, values in times.items()}
            yield {
                "shape": shape.name,
                "operator": "hstu_gated_output" if gate else "hstu_projection",
                "direction": "backward" if backward else "forward",
                "ms": {name: round(value, 3) for name, value in ms.items()},
                "least_ms": round(shape.least(gate, backward, device), 3),
                "errors": {name: float(f"{value:.1e}") for name, value in errors.items()},
            }
        del sides


def report(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    text = [
        "# Around HSTU's attention on a GPU",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        "`python -m benchmarks.hstu_layer`; its head says how. ms; error: relative, against float64, ours / eager.",
        "",
        "| layer | operator | direction | ours | eager | compiled | eager / ours | compiled / ours | least | error |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ms = row["ms"]
        text.append(
            f"| {row['shape']} | `{row['operator']}` | {row['direction']} | {ms['ours']} | {ms['eager']} | "
            f"{ms['compiled']} | {ms['eager'] / ms['ours']:.2f} | {ms['compiled'] / ms['ours']:.2f} | "
            f"{row['least_ms']} | {row['errors']['ours']} / {row['errors']['eager']} |"
        )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each row")
    parser.add_argument("--commit", default="", help="what is measured")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch._functorch.config.donated_buffer = False  # a compiled backward is called again and again
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
        for row in measure(shape, clock, options.seconds, name):
            rows.append(row)
            print(json.dumps(row), flush=True)
    file = options.out / f"hstu-layer-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
    file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    file.with_suffix(".md").write_text(report(rows, about))


if __name__ == "__main__":
    main()
