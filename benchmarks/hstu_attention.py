"""HSTU attention on one NVIDIA GPU beside softmax attention of the same work: python -m benchmarks.hstu_attention

The peers are PyTorch's causal scaled_dot_product_attention by cuDNN and by flash attention, on rows of one length: they
have more to do (a row's maximum, its sum), on the same products. Where rows are ragged, or a mask is not theirs, there
is no peer, and the rate alone counts. Ours is timed by each path that takes the row (gr_ops/cuda/paths.py), with
queries, keys and values as the model's fused projection gives them, not contiguous.

Before a row is timed its errors are measured on rows of the same kind against float64. The sides take turns, call by
call, so that all see the same clocks and the same heat; before each call the cache is written over, and the device
waits until the host has queued the call. Medians, with quartiles of the ratios of neighbouring calls. FLOP: of the
cells that the mask leaves, the causal half without its diagonal where there is nothing else; backward 2.5 times
forward. Writes benchmarks/results/hstu-attention-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import triton
from gr_ops.cuda import attention, paths
from gr_ops.cuda.problem import Problem
from torch.nn.attention import SDPBackend, sdpa_kernel

RESULTS = Path(__file__).resolve().parent / "results"
HEADS = 4
ASKED = 1.10  # of cuDNN's speed, on causal rows, in both directions
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
Call = Callable[[], Any]


@dataclass(frozen=True)
class Shape:
    batch: int
    length: int
    dim: int = 128
    dtype: str = "bfloat16"
    ragged: bool = False
    contexts: int = 0
    targets: int = 0
    window: int = 0

    @property
    def name(self) -> str:
        lengths = f"U(1..{self.length})" if self.ragged else f"{self.length}"
        masks = [
            f"{n} {what}"
            for n, what in ((self.contexts, "contexts"), (self.targets, "targets"), (self.window, "window"))
            if n
        ]
        return ", ".join([f"{self.batch}x{lengths}", f"D{self.dim}", self.dtype, *masks])

    @property
    def causal(self) -> bool:
        """Whether softmax attention has the same cells."""
        return not (self.ragged or self.contexts or self.targets or self.window)

    def lengths(self) -> list[int]:
        if not self.ragged:
            return [self.length] * self.batch
        return torch.randint(1, self.length + 1, (self.batch,), generator=torch.Generator().manual_seed(1)).tolist()

    def flop(self) -> float:
        """Of the forward pass."""
        if self.causal or self.ragged:
            cells = sum(n * n / 2 for n in self.lengths())
        else:
            cells = sum(float(self.seen(n).sum()) for n in self.lengths())
        return 4 * HEADS * self.dim * cells

    def seen(self, n: int) -> torch.Tensor:
        """[n, n]; of a window without contexts and targets, or of those with groups of one."""
        i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")[None, :]
        history = n - self.targets
        seen = (j <= i) & ((i < history) | (j < history) | (i == j))
        if self.window:
            return seen & (i - j <= self.window)
        return seen | ((i < self.contexts) & (j < history))


SHAPES = (
    *(Shape(*size) for size in ((32, 1024), (16, 2048), (8, 4096), (4, 8192), (32, 8000))),
    *(Shape(8, 4096, dim) for dim in (64, 256)),
    Shape(8, 4096, dtype="float16"),
    Shape(8, 4096, dim=96),
    Shape(32, 4096, ragged=True),
    Shape(8, 4096, contexts=16, targets=256),
    Shape(8, 4096, window=512),
)


class Side:
    """Tensors of a shape, and ours by path."""

    def __init__(self, shape: Shape) -> None:
        generator = torch.Generator("cuda").manual_seed(5)
        self.shape, self.lengths, dtype = shape, shape.lengths(), getattr(torch, shape.dtype)
        total, width = sum(self.lengths), HEADS * shape.dim
        parts = torch.randn(total, 4 * width, device="cuda", generator=generator).to(dtype)
        self.q, self.k, self.v = (
            parts[:, n * width : (n + 1) * width].unflatten(1, (HEADS, shape.dim)) for n in (2, 3, 1)
        )
        self.grad = torch.randn(total, HEADS, shape.dim, device="cuda", generator=generator).to(dtype)
        offsets = torch.tensor([0, *torch.tensor(self.lengths).cumsum(0).tolist()], device="cuda")
        counts = {
            name: torch.full((shape.batch,), getattr(shape, name), device="cuda")
            for name in ("contexts", "targets")
            if getattr(shape, name)
        }
        longest = max(self.lengths)
        self.problem = Problem(
            q=self.q,
            k=self.k,
            v=self.v,
            offsets=offsets,
            longest=longest,
            scale=1 / longest,
            window=shape.window,
            **counts,
        )
        self.outs = [torch.empty_like(self.grad) for _ in range(4)]

    def call(self, path: str, backward: bool) -> Call | None:
        """None where the path does not take the shape."""
        if path == "Triton":
            module: Any = _Triton
        else:
            module = paths.hopper(self.problem)
        if module is None:
            return None
        if backward:
            return lambda: module.gradients(self.problem, self.grad, *self.outs[1:])
        return lambda: module.attend(self.problem, self.outs[0])

    def errors(self, path: str) -> list[float]:
        """Relative, of output, dq, dk and dv; the first alone where the path has no gradients."""
        calls = [self.call(path, backward) for backward in (False, True)]
        for call in calls:
            if call is not None:
                call()
        found, parts, begin = self.outs[: 4 if calls[1] else 1], [[0.0, 0.0] for _ in self.outs], 0
        for n in self.lengths:
            own = slice(begin, begin + n)
            begin += n
            q, k, v, grad = (x[own].double().transpose(0, 1) for x in (self.q, self.k, self.v, self.grad))
            score, seen = q @ k.transpose(1, 2), self.shape.seen(n)
            at = torch.sigmoid(score)
            weight = torch.where(seen, score * at, 0.0) * self.problem.scale
            of_score = grad @ v.transpose(1, 2) * torch.where(seen, at * (1 + score * (1 - at)), 0.0)
            of_score *= self.problem.scale
            right = (weight @ v, of_score @ k, of_score.transpose(1, 2) @ q, weight.transpose(1, 2) @ grad)
            for sums, out, wanted in zip(parts, found, right):
                sums[0] += float((out[own].double().transpose(0, 1) - wanted).square().sum())
                sums[1] += float(wanted.square().sum())
        return [float(f"{(apart / all_) ** 0.5:.2e}") for (apart, all_), _ in zip(parts, found)]


class _Triton:
    """attention.attend and .gradients with the other path closed."""

    @staticmethod
    def attend(p: Problem, *outs: torch.Tensor) -> None:
        attention.attend_in_triton(p, *outs)

    @staticmethod
    def gradients(p: Problem, *tensors: torch.Tensor) -> None:
        attention.gradients_in_triton(p, *tensors)


def peer_calls(shape: Shape, side: Side, backward: bool) -> Iterator[tuple[str, Call]]:
    sizes = (shape.batch, shape.length)
    q, k, v, grad = (x.unflatten(0, sizes).transpose(1, 2).contiguous() for x in (side.q, side.k, side.v, side.grad))
    for name, backend in PEERS.items():
        leaves = [x.detach().requires_grad_(backward) for x in (q, k, v)]

        def attend(leaves: list[torch.Tensor] = leaves, backend: Any = backend) -> torch.Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*leaves, is_causal=True)

        if not backward:
            yield name, attend
            continue
        out = attend()
        yield name, lambda out=out, leaves=leaves: torch.autograd.grad(out, leaves, grad, retain_graph=True)


class Clock:
    """Device milliseconds of calls in turn."""

    def __init__(self) -> None:
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.matrix = torch.randn(8192, 8192, device="cuda").bfloat16()

    def times(self, calls: dict[str, Call], seconds: float) -> tuple[dict[str, list[float]], dict[str, float]]:
        """Of each call, at least five times; and the host's median."""
        for call in calls.values():
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        found: dict[str, list[float]] = {name: [] for name in calls}
        host: dict[str, list[float]] = {name: [] for name in calls}
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds or len(next(iter(found.values()))) < 5:
            for name, call in calls.items():
                self.flush.zero_()
                torch.cuda._sleep(1_000_000)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                at = time.perf_counter()
                call()
                host[name].append(1e3 * (time.perf_counter() - at))
                end.record()
                torch.cuda.synchronize()
                found[name].append(start.elapsed_time(end))
        return found, {name: statistics.median(values) for name, values in host.items()}

    def ceiling(self) -> float:
        """TFLOP/s of a product of 8192 x 8192 matrices in bfloat16."""
        times, _ = self.times({"": lambda: self.matrix @ self.matrix}, 0.3)
        return 2 * 8192**3 / statistics.median(times[""]) / 1e9


def gpu(facts: str) -> str:
    """What nvidia-smi says."""
    command = ["nvidia-smi", f"--query-gpu={facts}", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def measure(shape: Shape, clock: Clock, seconds: float, check: bool) -> Iterator[dict[str, Any]]:
    errors: dict[str, list[float]] = {}
    if check:
        # Rows of the same kind, few of them where they are long: float64 takes its time.
        small = Side(replace(shape, batch=max(1, min(shape.batch, 8192 // shape.length))))
        for path in ("Hopper", "Triton"):
            if small.call(path, False) is not None:
                errors[path] = small.errors(path)
                assert max(errors[path]) < 4e-3, (shape, path, errors)
        del small
    side = Side(shape)
    for backward in (False, True):
        ours = {path: call for path in ("Hopper", "Triton") if (call := side.call(path, backward)) is not None}
        peers = dict(peer_calls(shape, side, backward)) if shape.causal else {}
        times, host = clock.times(ours | peers, seconds)
        flop = shape.flop() * (2.5 if backward else 1)
        yield {
            "shape": shape.name,
            "direction": "backward" if backward else "forward",
            "ms": {name: round(statistics.median(values), 4) for name, values in times.items()},
            "tflops": {name: round(flop / statistics.median(values) / 1e9) for name, values in times.items()},
            "host_ms": {name: round(value, 3) for name, value in host.items()},
            "of_cudnn": quartiles(times["cuDNN"], times[next(iter(ours))]) if peers else None,
            "errors": {path: values[1:] if backward else values[:1] for path, values in errors.items()},
            "clock_and_power": gpu("clocks.sm,power.draw"),
        }
        del peers, ours


def quartiles(theirs: list[float], ours: list[float]) -> list[float]:
    """Lower, median and upper of the ratios of neighbouring calls."""
    return [round(x, 3) for x in statistics.quantiles([a / b for a, b in zip(theirs, ours)], n=4)]


def report(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    text = [
        "# HSTU attention on a GPU",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        f"`python -m benchmarks.hstu_attention`; its head says how. {HEADS} heads, TFLOP/s (ms). Ratio: cuDNN's "
        f"time over that of our first path, quartiles in brackets; asked is {ASKED:.2f} on causal rows. Error: "
        "relative, against float64.",
        "",
        "| shape | direction | Hopper | Triton | cuDNN | flash | ratio | error | host ms, cuDNN's | clock, power |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            f"{row['tflops'][name]} ({row['ms'][name]:.3f})" if name in row["ms"] else "-"
            for name in ("Hopper", "Triton", *PEERS)
        ]
        ratio = "-"
        if row["of_cudnn"]:
            low, middle, high = row["of_cudnn"]
            ratio = f"{'missed ' if middle < ASKED else ''}{middle:.2f} ({low:.2f} to {high:.2f})"
        errors = next(iter(row["errors"].values()), [])
        path = next(iter(row["ms"]))
        host = f"{row['host_ms'][path]:.3f} / {row['host_ms'].get('cuDNN', '-')}"
        text.append(
            f"| {row['shape']} | {row['direction']} | {' | '.join(cells)} | {ratio} | "
            f"{', '.join(f'{x:.1e}' for x in errors)} | {host} | {row['clock_and_power']} |"
        )
    asked = [row for row in rows if row["of_cudnn"]]
    missed = sum(row["of_cudnn"][1] < ASKED for row in asked)
    text += ["", f"{len(asked) - missed} of {len(asked)} rows reach what is asked for."]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="only shapes whose name has this text")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row")
    parser.add_argument("--unchecked", action="store_true", help="without errors against float64")
    parser.add_argument("--commit", default="", help="what is measured; default: git's HEAD")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    commit = (
        options.commit
        or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    )
    clock, name = Clock(), torch.cuda.get_device_name()
    about = {
        "device": name,
        "limit and top clock": gpu("power.limit,clocks.max.sm"),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuDNN": torch.backends.cudnn.version(),
        "commit": commit,
        "TFLOP/s of a product of 8192 squared, before": round(clock.ceiling()),
    }
    print(about, flush=True)
    rows: list[dict[str, Any]] = []
    file = options.out / f"hstu-attention-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
    for shape in SHAPES:
        if options.match not in shape.name:
            continue
        for row in measure(shape, clock, options.seconds, not options.unchecked):
            rows.append(row)
            print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        file.with_suffix(".md").write_text(report(rows, about))
        file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    about["after"] = round(clock.ceiling())
    text = report(rows, about)
    file.with_suffix(".md").write_text(text)
    file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
