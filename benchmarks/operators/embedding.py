"""Embedding lookup and optimizer step on the CPU: our kernels beside fbgemm_gpu's, call by call in turn.

    MXREC_NO_FBGEMM_OVERRIDE=1 python benchmarks/operators/embedding.py [--rounds N]

prints a table and writes benchmarks/results/operators-cpu-embedding.{json,md}. rows() gives the figures to a caller.
Adam and pooling NONE do not exist in fbgemm_gpu 1.1.0 on the CPU: their peers are PyTorch's own.

One thread: processor time of calls in turn, which other work on the machine hardly changes; the ratio is the median of
the rounds' ratios. All threads: the shortest time of a call, since any other one may have waited for a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("MXREC_NO_FBGEMM_OVERRIDE", "1")
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402

RESULTS = Path(__file__).resolve().parent.parent / "results"
SUM, MEAN, NONE = 0, 1, 2
STATELESS = ("sgd",)


@dataclass(frozen=True, kw_only=True)
class Case:
    """T tables of E rows and D columns; B bags per table, of up to 2 * bag indices."""

    name: str
    tables: int
    rows: int
    dim: int
    batch: int
    bag: int
    hot: float = 0.0  # share of the indices that is row 0
    dtype: torch.dtype = torch.float32


CASES = (
    Case(name="4 tables, 100k x 64, bags of 20", tables=4, rows=100_000, dim=64, batch=256, bag=20),
    Case(name="1 table, 200k x 128, bags of 50", tables=1, rows=200_000, dim=128, batch=512, bag=50),
    Case(name="26 tables, 10k x 16, bags of 1", tables=26, rows=10_000, dim=16, batch=512, bag=1),
    Case(name="2 tables, 1k x 8, bags of 5", tables=2, rows=1000, dim=8, batch=64, bag=5),
    Case(name="4 tables, 100k x 64, half of it row 0", tables=4, rows=100_000, dim=64, batch=256, bag=20, hot=0.5),
    Case(name="4 tables, 100k x 64, fp16", tables=4, rows=100_000, dim=64, batch=256, bag=20, dtype=torch.float16),
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


class Bags:
    """The arguments of one case."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        lengths = torch.randint(0, 2 * case.bag + 1, (case.tables * case.batch,))
        self.offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        count = int(self.offsets[-1])
        drawn = torch.randint(0, case.rows, (count,))
        self.indices = torch.where(torch.rand(count) < case.hot, 0, drawn)
        self.starts = torch.arange(case.tables) * case.rows * case.dim
        self.columns = torch.arange(case.tables + 1, dtype=torch.int32) * case.dim
        self.keys = torch.arange(case.tables + 1) * case.rows

    def weights(self) -> torch.Tensor:
        return (torch.rand(self.case.tables * self.case.rows * self.case.dim) - 0.5).to(self.case.dtype)

    def state(self, optimizer: str) -> dict[str, object]:
        case = self.case
        if optimizer in STATELESS:
            return {}
        rowwise = optimizer == "rowwise_adagrad"
        size = case.tables * case.rows * (1 if rowwise else case.dim)
        state: dict[str, object] = {"eps": 1e-3}
        for name in ("momentum1", "momentum2") if optimizer == "adam" else ("momentum1",):
            state[f"{name}_host"] = torch.zeros(size)
            state[f"{name}_placements"] = torch.zeros(case.tables, dtype=torch.int32)
            state[f"{name}_offsets"] = self.keys[:-1] if rowwise else self.starts
        if rowwise:
            state |= {"weight_decay": 0.0, "weight_decay_mode": 0, "max_norm": 0.0}
        if optimizer == "adam":
            state |= {"beta1": 0.9, "beta2": 0.999, "iter": 1}
        return state

    def lookup(self, space: str, optimizer: str, pooling: int) -> Callable[[], torch.Tensor]:
        """A call of the entry point for CPU tensors; its backward pass is the optimizer's step."""
        op = getattr(getattr(torch.ops, space), f"split_embedding_codegen_lookup_{optimizer}_function_cpu")
        arguments = dict(
            host_weights=self.weights().requires_grad_(),
            weights_placements=torch.zeros(self.case.tables, dtype=torch.int32),
            weights_offsets=self.starts,
            D_offsets=self.columns,
            total_D=self.case.tables * self.case.dim,
            max_D=self.case.dim,
            hash_size_cumsum=self.keys,
            total_hash_size_bits=int(self.keys[-1]).bit_length(),
            indices=self.indices,
            offsets=self.offsets,
            pooling_mode=pooling,
            indice_weights=None,
            feature_requires_grad=None,
            gradient_clipping=False,
            max_gradient=1.0,
            stochastic_rounding=False,
            learning_rate=0.01,
            **self.state(optimizer),
        )
        return lambda: op(**arguments)


def timed(call: Callable[[], object]) -> float:
    """Seconds: of the processor with one thread, of the clock with several."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    started = clock()
    call()
    return clock() - started


def step_time(forward: Callable[[], torch.Tensor]) -> float:
    out = forward()
    gradient = torch.ones_like(out)
    return timed(lambda: out.backward(gradient))


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two calls that give their own time."""

    operator: str
    case: str
    peer: str
    ours: Callable[[], float]
    theirs: Callable[[], float]

    def run(self, rounds: int) -> Row:
        times: list[tuple[float, float]] = []
        for i in range(rounds + 3):
            ours = self.ours() if i % 2 else None
            theirs = self.theirs()
            pair = (self.ours() if ours is None else ours, theirs)
            if i >= 3:  # the first ones warm up
                times.append(pair)
        ours_all, theirs_all = zip(*times)
        common = {"operator": self.operator, "case": self.case, "peer": self.peer, "threads": torch.get_num_threads()}
        if torch.get_num_threads() > 1:
            best = min(ours_all), min(theirs_all)
            return Row(**common, ours_us=us(best[0]), peer_us=us(best[1]), ratio=round(best[1] / best[0], 2),
                       low=None, high=None)  # fmt: skip
        low, middle, high = (round(q, 2) for q in statistics.quantiles([b / a for a, b in times], n=4))
        return Row(**common, ours_us=us(statistics.median(ours_all)), peer_us=us(statistics.median(theirs_all)),
                   ratio=middle, low=low, high=high)  # fmt: skip


def us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def no_gradient(call: Callable[[], torch.Tensor]) -> Callable[[], float]:
    def run() -> float:
        with torch.no_grad():
            return timed(call)

    return run


def step(call: Callable[[], torch.Tensor]) -> Callable[[], float]:
    return lambda: step_time(call)


def beside_fbgemm(case: Case) -> Iterator[Duel]:
    bags = Bags(case)
    peer = f"fbgemm_gpu {version('fbgemm_gpu_cpu')}"
    ours, theirs = (bags.lookup(space, "sgd", SUM) for space in ("mxrec", "fbgemm"))
    yield Duel(operator="lookup, SUM", case=case.name, peer=peer, ours=no_gradient(ours), theirs=no_gradient(theirs))
    for name in ("sgd", "adagrad", "rowwise_adagrad"):
        ours, theirs = (bags.lookup(space, name, SUM) for space in ("mxrec", "fbgemm"))
        yield Duel(operator=f"step, {name}", case=case.name, peer=peer, ours=step(ours), theirs=step(theirs))


def beside_torch(case: Case) -> Iterator[Duel]:
    """One table: what fbgemm's CPU build lacks."""
    bags = Bags(case)
    table = bags.weights().view(case.rows, case.dim)
    ours = bags.lookup("mxrec", "sgd", NONE)
    yield Duel(operator="lookup, NONE", case=case.name, peer="torch embedding", ours=no_gradient(ours),
               theirs=no_gradient(lambda: torch.nn.functional.embedding(bags.indices, table)))  # fmt: skip
    module = torch.nn.EmbeddingBag.from_pretrained(
        table.clone(), freeze=False, mode="sum", sparse=True, include_last_offset=True
    )
    optimizer = torch.optim.SparseAdam(module.parameters(), lr=0.01)

    def torch_step() -> float:
        optimizer.zero_grad()
        out = module(bags.indices, bags.offsets)
        gradient = torch.ones_like(out)

        def backward_and_step() -> None:
            out.backward(gradient)
            optimizer.step()

        return timed(backward_and_step)

    yield Duel(operator="step, adam", case=case.name, peer="torch EmbeddingBag, SparseAdam",
               ours=step(bags.lookup("mxrec", "adam", SUM)), theirs=torch_step)  # fmt: skip


def rows(rounds: int = 30) -> list[Row]:
    import gr_ops  # noqa: F401

    name = "fbgemm::split_embedding_codegen_lookup_adagrad_function_cpu"
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU"):
        raise RuntimeError("fbgemm's kernels are overridden; set MXREC_NO_FBGEMM_OVERRIDE=1 before gr_ops is imported")
    threads = torch.get_num_threads()
    result = []
    for case in CASES:
        for duel in [*beside_fbgemm(case), *(beside_torch(case) if case.tables == 1 else ())]:
            for count in sorted({1, threads}):
                torch.set_num_threads(count)
                result.append(duel.run(rounds))
    return result


def machine() -> dict[str, object]:
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())  # fmt: skip
    versions = {name: version(name) for name in ("torch", "fbgemm_gpu_cpu")}
    return {"cpu": cpu, "threads": torch.get_num_threads(), "load": os.getloadavg()[0], **versions}


def report(found: list[Row], about: dict[str, object]) -> str:
    lines = [
        "# Embedding operators on the CPU",
        "",
        f"{about['cpu']}, torch {about['torch']}, load of the machine {about['load']:.1f}. Ratio = peer / ours. One "
        "thread: processor time, medians, with the quartiles of the rounds' ratios. Several: the shortest call.",
        "",
        "| operator | case | peer | threads | ours us | peer us | ratio | quartiles |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in found:
        spread = "" if r.low is None else f"{r.low:.2f} to {r.high:.2f}"
        lines.append(f"| {r.operator} | {r.case} | {r.peer} | {r.threads} | {r.ours_us:.0f} | {r.peer_us:.0f} | "
                     f"{r.ratio:.2f} | {spread} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    found, about = rows(rounds), machine()
    text = report(found, about)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "operators-cpu-embedding.md").write_text(text)
    data = {"machine": about, "rounds": rounds, "rows": [asdict(row) for row in found]}
    (RESULTS / "operators-cpu-embedding.json").write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
