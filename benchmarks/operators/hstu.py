"""HSTU attention on the CPU: torch.ops.mxrec.hstu_dense beside PyTorch's own operators, call by call in turn.

    python benchmarks/operators/hstu.py [--rounds N] [--threads 1 2 ...]

prints a table and writes benchmarks/results/operators-cpu-hstu.{json,md}. rows() gives the figures to a caller.

Peers: "padded" is q, k, v padded to the longest row S, S x S scores, SiLU, mask, as HSTU is commonly written; "by row"
is the same row by row without padding. Their inputs are prepared beforehand; what is timed is the attention alone.
Lengths are uniform in 1 to S, or all S.

One thread: processor time of calls in turn, which other work on the machine hardly changes; the ratio is the median of
the rounds' ratios. Several threads, which make sense on an idle machine only: the shortest time of a call.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass(frozen=True, kw_only=True)
class Case:
    """B rows of up to S tokens, N heads of D elements."""

    batch: int
    length: int
    heads: int = 4
    dim: int = 64
    dtype: torch.dtype = torch.float32
    uniform: bool = True

    @property
    def name(self) -> str:
        lengths = f"1 to {self.length}" if self.uniform else f"{self.length}"
        return f"{self.batch} rows of {lengths}, {self.heads} x {self.dim}, {str(self.dtype)[6:]}"


CASES = (
    *(Case(batch=8192 // s, length=s) for s in (64, 128, 256, 512, 1024)),
    *(Case(batch=8192 // s, length=s, uniform=False) for s in (128, 1024)),
    Case(batch=8, length=1024, dim=32),
    Case(batch=8, length=1024, dim=128),
    *(Case(batch=8192 // s, length=s, dtype=torch.bfloat16) for s in (128, 1024)),
    Case(batch=8, length=1024, dtype=torch.bfloat16, uniform=False),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    operator: str
    case: str
    peer: str
    threads: int
    ours_us: float
    peer_us: float
    ratio: float  # peer / ours
    low: float | None  # quartiles of the rounds' ratios; None where the shortest times are compared
    high: float | None
    ours_gflops: float  # products of visible pairs alone


class Attention:
    """One case in the three forms; each call gives the output."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        if case.uniform:
            self.lengths = torch.randint(1, case.length + 1, (case.batch,))
        else:
            self.lengths = torch.full((case.batch,), case.length)
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths.cumsum(0)])
        total = int(self.offsets[-1])
        jagged = [torch.rand(total, case.heads, case.dim).sub(0.5).to(case.dtype) for _ in range(3)]
        self.jagged = [x.requires_grad_() for x in jagged]
        # [B, N, S, D], and for each row [N, n, D]
        self.padded = [self.pad(x.detach()).transpose(1, 2).contiguous().requires_grad_() for x in jagged]
        self.rows = [[self.by_head(part) for part in x.detach().split(self.lengths.tolist())] for x in jagged]
        self.causal = torch.tril(torch.ones(case.length, case.length, dtype=case.dtype))

    def pad(self, jagged: torch.Tensor) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(jagged.split(self.lengths.tolist()), batch_first=True)

    @staticmethod
    def by_head(row: torch.Tensor) -> torch.Tensor:
        return row.transpose(0, 1).contiguous().requires_grad_()

    def flops(self) -> float:
        pairs = float((self.lengths * (self.lengths + 1)).sum()) / 2
        return 4 * pairs * self.case.heads * self.case.dim

    def naive(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n = q.shape[-2]
        weights = F.silu(q @ k.transpose(-1, -2)) * (1.0 / self.case.length)
        return (weights * self.causal[:n, :n]) @ v

    def ours(self) -> list[torch.Tensor]:
        length = self.case.length
        return [torch.ops.mxrec.hstu_dense(*self.jagged, None, None, 0, length, 0.0, "jagged", self.offsets)]

    def by_padding(self) -> list[torch.Tensor]:
        return [self.naive(*self.padded)]

    def by_row(self) -> list[torch.Tensor]:
        return [self.naive(*qkv) for qkv in zip(*self.rows)]

    def check(self) -> None:
        """All three compute the same."""
        with torch.no_grad():
            ours = self.ours()[0]
            rows = torch.cat([out.transpose(0, 1) for out in self.by_row()])
            padded = self.by_padding()[0].transpose(1, 2)
            padded = torch.cat([row[:n] for row, n in zip(padded, self.lengths.tolist())])
        tolerance = 1e-5 if self.case.dtype == torch.float32 else 1e-2
        torch.testing.assert_close(ours, rows, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(ours, padded, rtol=tolerance, atol=tolerance)


Call = Callable[[], list[torch.Tensor]]


def timed(call: Callable[[], object]) -> float:
    """Seconds: of the processor with one thread, of the clock with several."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    started = clock()
    call()
    return clock() - started


def forward(call: Call, inputs: list[torch.Tensor]) -> Callable[[], float]:
    def run() -> float:
        with torch.no_grad():
            return timed(call)

    return run


def forward_backward(call: Call, inputs: list[torch.Tensor]) -> Callable[[], float]:
    with torch.no_grad():
        gradients = [torch.rand_like(out) for out in call()]

    def run() -> float:
        return timed(lambda: torch.autograd.grad(call(), inputs, gradients))

    return run


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two calls that give their own time."""

    operator: str
    case: str
    peer: str
    flops: float
    ours: Callable[[], float]
    theirs: Callable[[], float]

    def run(self, rounds: int) -> Row:
        times: list[tuple[float, float]] = []
        for i in range(rounds + 2):
            ours = self.ours() if i % 2 else None
            theirs = self.theirs()
            pair = (self.ours() if ours is None else ours, theirs)
            if i >= 2:  # the first ones warm up
                times.append(pair)
        ours_all, theirs_all = zip(*times)
        several = torch.get_num_threads() > 1
        best = min if several else statistics.median
        ours, theirs = best(ours_all), best(theirs_all)
        low, middle, high = statistics.quantiles([b / a for a, b in times], n=4)
        return Row(
            operator=self.operator,
            case=self.case,
            peer=self.peer,
            threads=torch.get_num_threads(),
            ours_us=round(ours * 1e6, 1),
            peer_us=round(theirs * 1e6, 1),
            ratio=round(theirs / ours if several else middle, 2),
            low=None if several else round(low, 2),
            high=None if several else round(high, 2),
            ours_gflops=round(self.flops / ours / 1e9, 1),
        )


def duels(case: Case) -> Iterator[Duel]:
    attention = Attention(case)
    attention.check()
    peers = [("padded", attention.by_padding, attention.padded), ("by row", attention.by_row, sum(attention.rows, []))]
    for peer, call, inputs in peers:
        for operator, measure, factor in (("forward", forward, 1.0), ("forward + backward", forward_backward, 3.5)):
            yield Duel(operator=operator, case=case.name, peer=peer, flops=factor * attention.flops(),
                       ours=measure(attention.ours, attention.jagged), theirs=measure(call, inputs))  # fmt: skip


def rows(rounds: int = 11, threads: Sequence[int] = (1,)) -> list[Row]:
    import gr_ops  # noqa: F401

    result = []
    for case in CASES:
        for duel in duels(case):
            for count in threads:
                torch.set_num_threads(count)
                result.append(duel.run(rounds))
                print(line(result[-1]), flush=True)
    return result


def machine() -> dict[str, object]:
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())  # fmt: skip
    return {
        "cpu": cpu,
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": version("torch"),
    }


def line(r: Row) -> str:
    spread = "" if r.low is None else f"{r.low:.2f} to {r.high:.2f}"
    return (
        f"| {r.operator} | {r.case} | {r.peer} | {r.threads} | {r.ours_us / 1e3:.2f} | {r.peer_us / 1e3:.2f} | "
        f"{r.ratio:.2f} | {spread} | {r.ours_gflops:.0f} |"
    )


def report(found: list[Row], about: dict[str, object]) -> str:
    machine_text = f"{about['cpu']} ({about['torch_capability']}), {about['processors']} processors"
    lines = [
        "# HSTU attention on the CPU",
        "",
        f"{machine_text}, torch {about['torch']}, load of the machine {about['load']:.1f}. Lower triangular mask. "
        "Ratio = peer / ours. One thread: processor time, medians, with the quartiles of the rounds' ratios. Several: "
        "the shortest call. GFLOP/s: ours, counting the products of visible pairs alone.",
        "",
        "| operator | rows, heads x dimension | peer | threads | ours ms | peer ms | ratio | quartiles | GFLOP/s |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(line, found),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    found = rows(options.rounds, options.threads)
    about = machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "operators-cpu-hstu.md").write_text(report(found, about))
    data = {"machine": about, "rounds": options.rounds, "rows": [asdict(row) for row in found]}
    (RESULTS / "operators-cpu-hstu.json").write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
