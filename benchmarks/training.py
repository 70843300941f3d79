"""A training step on the CPU beside the same model on padded PyTorch: python benchmarks/training.py [--runs 3]

Two cases. "step": ML-100K's configuration (dim 50, 2 blocks, 1 head, batch 128, sequence 200, 128 negatives), lengths
as a batch of that set has them: forward, loss, backward, AdamW. "stack": the two layers alone, forward and backward
with dropout, lengths uniform in 20 to 200. The peer holds the same weights and computes the same: [B, S, D] throughout,
S x S scores and bias by advanced indexing, loss over gathered rows of the items, as HSTU is commonly written. Losses
and gradients are compared first.

Medians of calls in turn, and of their ratios. One thread: by processor time, which other work on the machine hardly
changes. More threads: by the clock, for an idle machine. What the second core gives differs from minute to minute, so
there are several runs, each a process of its own, one after the other: the median run of each figure decides, and all
are written. Writes benchmarks/results/training-cpu.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from gr_model import config as configs  # noqa: E402
from gr_model.config import Config, presets  # noqa: E402
from gr_model.model import jagged  # noqa: E402
from gr_model.model.hstu import HSTU, HSTULayer  # noqa: E402
from gr_model.model.sequences import Sequences  # noqa: E402
from gr_model.runtime.device import keep_freed_memory  # noqa: E402
from gr_model.tasks import losses  # noqa: E402
from gr_model.tasks.retrieval import RetrievalModel  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
BATCH, LONGEST, ITEMS = 128, 200, 1682
PEER = {"step": ("0.75 s a step", 0.75), "stack": ("60k tokens/s", 60_000.0)}  # docs/targets.md, two idle cores
TARGET = {"step": 0.035, "stack": 400_000.0}  # seconds, tokens/s; on two idle cores
MEASURED = ("ours_ms", "padded_ms", "ratio", "tokens_per_s")
Row = dict[str, Any]


def ml100k_lengths() -> list[int]:
    """Histories of ML-100K: from 20 interactions up, the median about 65, a fifth cut at 200."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.distributions.LogNormal(4.2, 1.0).icdf(torch.rand(BATCH, generator=generator))
    return sorted(drawn.long().clamp(18, LONGEST).tolist(), reverse=True)


def uniform_lengths() -> list[int]:
    generator = torch.Generator().manual_seed(0)
    return sorted(torch.randint(20, LONGEST + 1, (BATCH,), generator=generator).tolist(), reverse=True)


def sequences_of(lengths: list[int]) -> Sequences:
    generator = torch.Generator().manual_seed(1)
    times = torch.cat([torch.randint(0, 10**7, (n,), generator=generator).sort().values for n in lengths])
    return Sequences(jagged.offsets_of(torch.tensor(lengths)), times, tuple(lengths))


class Padded:
    """The peer: a layer and a loss over [B, S, D]."""

    def __init__(self, sequences: Sequences, config: Config) -> None:
        self.config = config.model
        rows = [torch.arange(n) for n in sequences.lengths]
        self.inside_BS = torch.nn.utils.rnn.pad_sequence([torch.ones_like(r, dtype=torch.bool) for r in rows], True)
        self.times_BS = torch.nn.utils.rnn.pad_sequence(list(sequences.times_L.split(sequences.lengths)), True)
        longest = sequences.longest
        self.causal_SS = torch.tril(torch.ones(longest, longest))
        at = torch.arange(longest)
        self.distance_SS = (at[:, None] - at[None, :]).clamp(min=0)

    def pad(self, x_LD: torch.Tensor) -> torch.Tensor:
        out = x_LD.new_zeros(*self.inside_BS.shape, x_LD.shape[1])
        out[self.inside_BS] = x_LD
        return out

    def layer(self, layer: HSTULayer, x_BSD: torch.Tensor) -> torch.Tensor:
        normed = F.layer_norm(x_BSD, x_BSD.shape[-1:], eps=self.config.norm_eps)
        u, v, q, k = F.silu(normed @ layer.uvqk).split(layer.split, dim=2)
        seconds = (self.times_BS[:, :, None] - self.times_BS[:, None, :]).clamp(min=1).float()
        bucket_BSS = (seconds.log() / 0.301).long().clamp(max=self.config.time_buckets - 1)
        bias = layer.attention.bias
        scores_BSS = q @ k.transpose(1, 2) + bias.position[self.distance_SS] + bias.time[bucket_BSS]
        weights_BSS = F.silu(scores_BSS) / self.config.max_tokens * self.causal_SS
        attended = F.layer_norm(weights_BSS @ v, v.shape[-1:], eps=self.config.norm_eps)
        return x_BSD + F.linear(layer.dropout(u * attended), layer.output.weight, layer.output.bias)

    def stack(self, model: HSTU, x_LD: torch.Tensor) -> torch.Tensor:
        x_BSD = self.pad(x_LD)
        for layer in model.layers:
            x_BSD = self.layer(layer, x_BSD)
        return x_BSD[self.inside_BS]

    def loss(self, model: RetrievalModel, items_I: torch.Tensor, samples: losses.Samples, t: float) -> torch.Tensor:
        table, at = model.preprocess.item.weight, self.inside_BS.nonzero()[:, 1]
        x_LD = table[items_I] * self.config.dim**0.5 + model.preprocess.position.weight[at]
        query_ID = F.normalize(self.stack(model.backbone, model.preprocess.dropout(x_LD)), dim=1)
        negatives_IR = samples.negatives_GR.repeat_interleave(samples.group, 0)[: len(items_I)]
        ids_IR = torch.cat([samples.targets_I[:, None], negatives_IR], 1)
        logits_IR = (F.normalize(table, dim=1)[ids_IR] @ query_ID[:, :, None])[:, :, 0] / t
        accident_IR = ids_IR == ids_IR[:, :1]
        accident_IR[:, 0] = False
        return F.cross_entropy(logits_IR.masked_fill(accident_IR, -1e4), torch.zeros(len(items_I), dtype=torch.long))


Call = Callable[[], torch.Tensor]


def stack_case() -> tuple[Call, Call, int, torch.nn.Module]:
    config = _config()
    sequences = sequences_of(uniform_lengths())
    torch.manual_seed(0)
    model = HSTU(config.model)
    x_LD = torch.randn(sequences.total, config.model.dim, requires_grad=True)
    padded = Padded(sequences, config)
    return (
        lambda: _backward(model(x_LD, sequences).square().sum()),
        lambda: _backward(padded.stack(model, x_LD).square().sum()),
        sequences.total,
        model,
    )


def step_case() -> tuple[Call, Call, int, torch.nn.Module]:
    config = _config()
    sequences = sequences_of(ml100k_lengths())
    total, temperature = sequences.total, config.retrieval.temperature
    torch.manual_seed(0)
    model = RetrievalModel(config, ITEMS, 5, [])
    items_I, targets_I = torch.randint(ITEMS, (2, total))
    samples = losses.draw(targets_I, ITEMS, config.retrieval.negatives, 0, config.retrieval.share)
    position_L = torch.cat([torch.arange(n) for n in sequences.lengths])
    padded = Padded(sequences, config)

    def ours() -> torch.Tensor:
        module = model.preprocess
        x_LD = module.item.weight.index_select(0, items_I) * module.scale
        x_LD = module.dropout(x_LD + module.position.weight.index_select(0, position_L))
        return model.loss(model.backbone(x_LD, sequences), module.item.weight, samples)

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def step(loss: Call) -> Call:
        def run() -> torch.Tensor:
            value = _backward(loss())
            optimizer.step()
            return value

        return run

    return step(ours), step(lambda: padded.loss(model, items_I, samples, temperature)), total, model


def _config() -> Config:
    config = configs.override(presets.get("ml-100k-retrieval"), ["model.dropout=0.2"])
    return configs.override(config, ["model.attention=fused"]) if hasattr(torch.ops.mxrec, "hstu_dense") else config


def _backward(loss: torch.Tensor) -> torch.Tensor:
    loss.backward()
    return loss.detach()


def check(ours: Call, theirs: Call, model: torch.nn.Module) -> None:
    model.eval()
    found = []
    for call in (ours, theirs):
        model.zero_grad()
        found.append([call(), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-4 * float(b.abs().max()))
    model.train()


def measure(name: str, rounds: int, threads: int) -> Row:
    torch.set_num_threads(threads)
    ours, theirs, tokens, model = {"step": step_case, "stack": stack_case}[name]()
    check(ours, theirs, model)
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[tuple[float, float]] = []
    for index in range(rounds + 2):
        pair = []
        for call in (ours, theirs):
            model.zero_grad()
            begin = clock()
            call()
            pair.append(clock() - begin)
        if index >= 2:  # the first ones warm up
            times.append((pair[0], pair[1]))
    a, b = (statistics.median(side) for side in zip(*times))
    low, middle, high = statistics.quantiles([y / x for x, y in times], n=4)
    return {
        "case": name,
        "threads": threads,
        "tokens": tokens,
        "ours_ms": round(a * 1e3, 1),
        "padded_ms": round(b * 1e3, 1),
        "ratio": round(middle, 2),
        "quartiles": (round(low, 2), round(high, 2)),
        "tokens_per_s": round(tokens / a),
    }


def machine() -> dict[str, object]:
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": cpu,
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
        "attention": _config().model.attention,
    }


def middle_of(runs: list[list[Row]]) -> list[Row]:
    """Of each row, the median of the runs figure by figure."""
    rows = []
    for same in zip(*runs, strict=True):
        figures = {name: round(statistics.median(row[name] for row in same), 2) for name in MEASURED}
        quartiles = [round(statistics.median(row["quartiles"][at] for row in same), 2) for at in (0, 1)]
        rows.append({**same[0], **figures, "tokens_per_s": round(figures["tokens_per_s"]), "quartiles": quartiles})
    return rows


def asked(case: str, rows: list[Row], runs: list[list[Row]]) -> str:
    text = f"{TARGET[case] * 1e3:.0f} ms a step" if case == "step" else f"{TARGET[case]:,.0f} tokens/s of the stack"

    def met(row: Row) -> bool:
        return bool(row["ours_ms"] <= TARGET[case] * 1e3 if case == "step" else row["tokens_per_s"] >= TARGET[case])

    def wanted(some: list[Row]) -> list[Row]:
        return [row for row in some if row["case"] == case and row["threads"] == 2]

    if not wanted(rows):
        return f"{text} (not measured)"
    verdict = "reached" if met(wanted(rows)[0]) else "missed"
    return f"{text} ({verdict}; in {sum(met(wanted(run)[0]) for run in runs)} of {len(runs)} runs)"


def report(rows: list[Row], runs: list[list[Row]], about: dict[str, object]) -> str:
    lines = [
        "# A training step on the CPU",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items())
        + ". Medians of calls in turn, with the quartiles of the rounds' ratios; one thread by processor time, more by "
        f"the clock. {len(runs)} runs, each a process of its own; of each figure the median run, and all of ours.",
        "",
        "| case | threads | tokens | ours ms | each run | padded PyTorch ms | ratio | quartiles | ours tokens/s | "
        "each run |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r, same in zip(rows, zip(*runs, strict=True), strict=True):
        low, high = r["quartiles"]
        each = ["; ".join(f"{row[name]:,}" for row in same) for name in ("ours_ms", "tokens_per_s")]
        lines.append(
            f"| {r['case']} | {r['threads']} | {r['tokens']} | {r['ours_ms']} | {each[0]} | {r['padded_ms']} | "
            f"{r['ratio']} | {low} to {high} | {r['tokens_per_s']:,} | {each[1]} |"
        )
    lines += [
        "",
        "The peer (facebookresearch/generative-recommenders on two idle cores): "
        + ", ".join(f"{case} {text}" for case, (text, _) in PEER.items())
        + ". Asked of us on two idle cores: "
        + ", ".join(asked(case, rows, runs) for case in TARGET)
        + ".",
    ]
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace) -> list[Row]:
    keep_freed_memory()
    return [measure(name, options.rounds, threads) for name in ("step", "stack") for threads in options.threads]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a run, printed as JSON
    options = parser.parse_args()
    jagged.load_operators(torch.device("cpu"))
    if options.one:
        print(json.dumps(run(options)))
        return
    argv = [sys.executable, *sys.orig_argv[1:], "--one"]
    runs = []
    for number in range(1, options.runs + 1):
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"run {number} of {options.runs}: {json.dumps(runs[-1])}", flush=True)
    rows, about = middle_of(runs), machine()
    text = report(rows, runs, about)
    print(text)
    (RESULTS / "training-cpu.md").write_text(text)
    document = {"machine": about, "rows": rows, "runs": runs}
    (RESULTS / "training-cpu.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
